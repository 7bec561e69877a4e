"""The start of a trial: the same for the same seed, built once, and built anew when it was damaged."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.base.errors import InfraError, UserError
from bench.base.files import digest_folder
from bench.base.install import find_data_folders
from bench.cell.start_state import VARIABLE, StartState, fingerprint, prepare_start, seed_secret
from bench.formats.case import Case
from bench.formats.plan import public_seed
from bench.formats.run_folder import RunFolder
from bench.formats.suite import load_suite
from bench.plan.selection import Plan
from bench.runs.execute import Options, RunObserver, run_plan, write_plan
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import ROOT, make_agent, make_case, make_cell, python, write_files
from tests.helpers.fault_places import cut, flip

SECRET = "a secret that nobody can guess"
DATA = """
from pathlib import Path
def build(public, hidden, profile, seed):
    with open(Path(__file__).with_name("README.md"), "a") as file:
        file.write("built\\n")
    (public / "seed.txt").write_text(str(seed))
    (hidden / "sub").mkdir()
    (hidden / "sub" / "half.txt").write_text("x" * 1000)
"""


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return make_case(tmp_path / "cases", {"data.py": DATA, "README.md": ""})


def build(case: Case, tmp_path: Path, seed: int = 7) -> StartState:
    return prepare_start(case, "mini", seed, tmp_path / "cache")


def times_built(case: Case) -> int:
    """The README is the one file that does not count as the case's content."""
    return (case.folder / "README.md").read_text().count("built")


def a_file_more(place: Path) -> None:
    (place / "hidden" / "more.txt").write_text("x")


def a_mode_more(place: Path) -> None:
    (place / "workspace" / "seed.txt").chmod(0o755)


def another_content(place: Path) -> None:
    (place / "hidden" / "sub" / "half.txt").write_text("y" * 1000)


DAMAGES: list[Callable[[Path], object]] = [
    lambda place: cut(place / "hidden" / "sub" / "half.txt"),
    lambda place: flip(place / "workspace" / "seed.txt", 0),
    lambda place: (place / "complete").unlink(),
    lambda place: (place / "complete").write_bytes(b""),
    lambda place: flip(place / "complete", -3),
    lambda place: (place / "workspace" / "seed.txt").unlink(),
    lambda place: shutil.rmtree(place / "workspace"),
    a_file_more, a_mode_more, another_content,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_built_anew(case: Case, tmp_path: Path, damage: Callable[[Path], object]) -> None:
    place = build(case, tmp_path).workspace.parent
    before = digest_folder(place)
    build(case, tmp_path)
    assert times_built(case) == 1
    damage(place)
    assert build(case, tmp_path).workspace.parent == place
    assert (times_built(case), digest_folder(place)) == (2, before)


def test_many_at_once_build_once(case: Case, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: build(case, tmp_path), range(16)))
    assert (len(found), times_built(case)) == (1, 1)


def test_what_does_not_build_leaves_nothing(tmp_path: Path) -> None:
    text = (
        "def build(public, hidden, profile, seed):\n    (public / 'x').write_text('x')\n    raise RuntimeError('no')\n"
    )
    case = make_case(tmp_path / "cases", {"data.py": text})
    with pytest.raises(InfraError, match="RuntimeError: no") as caught:
        build(case, tmp_path)
    assert caught.value.cause == "data_error"
    assert [path.name[-5:] for path in (tmp_path / "cache" / "starts").iterdir()] == [".lock"]


def test_the_builder_ends_with_the_runner(tmp_path: Path) -> None:
    text = "import time\ndef build(public, hidden, profile, seed):\n    time.sleep(60)\n"
    case = make_case(tmp_path / "cases", {"data.py": text})
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from bench.formats.case import load_case\nfrom bench.cell.start_state import prepare_start\n"
        "prepare_start(load_case(Path(sys.argv[1])), 'mini', 7, Path(sys.argv[2]))\n"
    )
    runner = subprocess.Popen(python("-c", script, str(case.folder), str(tmp_path / "cache")), cwd=ROOT)
    children = Path(f"/proc/{runner.pid}/task/{runner.pid}/children")
    while not (pids := children.read_text().split()):
        assert runner.poll() is None
    runner.kill()
    runner.wait()
    until = time.monotonic() + 20
    while Path("/proc", pids[0]).exists():
        assert time.monotonic() < until
        time.sleep(0.02)


# --- the secret ------------------------------------------------------------------------------------------------------


def test_a_secret_gives_other_seeds_and_its_fingerprint_does_not_tell_it(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = [("2026.11", "nan_loss_debug", trial) for trial in range(1, 50)]
    secrets = [b"", SECRET.encode(), b"another secret, as long as that"]
    seeds = [{public_seed(*fact, secret) for fact in facts} for secret in secrets]
    assert all(len(them) == len(facts) for them in seeds)
    assert not (seeds[0] & seeds[1] or seeds[0] & seeds[2] or seeds[1] & seeds[2])
    assert [len(fingerprint(secret)) for secret in secrets] == [0, 16, 16]
    assert fingerprint(secrets[1]) != fingerprint(secrets[2])
    monkeypatch.setenv(VARIABLE, "short")
    with pytest.raises(UserError, match="the fewest"):
        seed_secret()


def test_a_run_with_a_secret_has_other_data_and_the_same_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_case(tmp_path / "cases", {"data.py": DATA, "README.md": ""})
    suite = "{id: one, version: '2026.11', title: One, cases: [double_it]}"
    write_files(tmp_path / "cases" / "suites", {"one.yaml": suite})
    script = "import os, shutil; shutil.copy('seed.txt', os.environ['BENCH_OUT_DIR'])"
    agent = make_agent(tmp_path / "agents", script)
    monkeypatch.setenv("ML_DEV_BENCH_CACHE", str(tmp_path / "cache"))
    places = find_data_folders(cases=tmp_path / "cases")
    seen, records = {}, {}
    for name, secret in (("open", ""), ("closed", SECRET)):
        monkeypatch.setenv(VARIABLE, secret)
        cell = make_cell(agent, make_case(tmp_path / "cases", {"data.py": DATA, "README.md": ""}))
        plan = Plan(load_suite(places.cases, "one"), "mini", [cell])
        stored = write_plan(plan, tmp_path / name, name, ProcessSandbox())
        run = (tmp_path / name, places, ProcessSandbox(), Options(), RunObserver())
        (records[name],) = run_plan(stored, [cell], *run)
        (copy,) = (tmp_path / name / "traces").rglob("seed.txt")
        seen[name] = int(copy.read_text())
    assert records["open"].seed == records["closed"].seed == seen["open"] != seen["closed"]
    assert records["open"].provenance.seed_secret == ""
    assert records["closed"].provenance.seed_secret == fingerprint(SECRET.encode())
    text = records["closed"].to_line() + (tmp_path / "closed" / "run.json").read_text()
    assert SECRET not in text and str(seen["closed"]) not in text
    monkeypatch.setenv(VARIABLE, "")
    with pytest.raises(UserError, match="is gone"):
        run_plan(RunFolder(tmp_path / "closed").read_plan(), [cell], *run)
