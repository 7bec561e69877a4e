"""Names of files that an agent has left: every archive, upload and file system takes what they become."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.cell.reduction import make_names_portable, portable_name
from bench.cell.run import run_cell
from bench.guest.trees import remove_tree
from bench.sandbox.job import Sandbox
from bench.store import Caps, unpack_artifact
from tests.helpers.cells import ROOT, make_agent, make_case, make_cell, make_context
from tests.helpers.github_rest.actions import archived

WORST = ["12:00.log", 'a"b', "a<b>c", "a|b", "a*?", "a\nb", "a\rb", "a\\..\\b", "C:x", "end.", "end ", "con", "Aux.txt",
         "a\x1b[31m", "\u202egnp.exe", "\u3000", "x" * 255, ":" * 255, ".hidden", "Case", "case", "CASE",
         "ü:ü"]  # fmt: skip
UPLOAD = ROOT / "tests" / "workflows" / "rehearsal" / "upload-artifact" / "upload.py"


def names_below(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))


def uploaded(folder: Path, store: Path) -> subprocess.CompletedProcess[str]:
    """The folder as the stand-in of actions/upload-artifact takes it."""
    told = {"FOUND": f"{folder}\n!{folder}/**/scratch/**", "ARTIFACTS": str(store), "GITHUB_RUN_ID": "1"}
    told |= {"NAME": "shard", "NOTHING": "error", "OVERWRITE": "true"}
    return subprocess.run([sys.executable, UPLOAD], env=told, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("usage.json", "usage.json"),
        (".hidden", "%2Ehidden"),
        ("...", "%2E.%2E"),
        ("100%.log", "100%.log"),
        ("two words ü (1).txt", "two words ü (1).txt"),
        ("constant.py", "constant.py"),
        ("12:00.log", "12%3A00.log"),
        ("a\\b\n", "a%5Cb%0A"),
        ("end.", "end%2E"),
        ("NUL.txt", "%4EUL.txt"),
    ],
)
def test_a_name_stays_or_is_written_as_in_an_address(name: str, expected: str) -> None:
    assert portable_name(name) == expected
    assert portable_name(expected) == expected


def test_names_that_are_one_elsewhere_are_told_apart(tmp_path: Path) -> None:
    for name in ("A", "a", "a~2", "12:00", "12%3A00"):
        (tmp_path / name).write_text(name)
    make_names_portable(tmp_path, remove_tree)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "A": "A", "a~2": "a~2", "a~3": "a", "12%3A00": "12%3A00", "12%3A00~2": "12:00"
    }  # fmt: skip


def test_what_lies_too_deep_for_an_archive_goes(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*"d" * 40)
    deep.mkdir(parents=True)
    (tmp_path / "d" / "kept").touch()
    wide = tmp_path.joinpath(*[":" * 60] * 12)
    wide.mkdir(parents=True)
    make_names_portable(tmp_path, remove_tree)
    names = names_below(tmp_path)
    assert "d/kept" in names
    assert max(name.count("/") for name in names) < 30 and max(len(name.encode()) for name in names) <= 1000


def test_a_file_of_several_names_becomes_several_files(tmp_path: Path) -> None:
    """Collecting refuses a hard link by name, and ends with a status that stops whoever collects for all agents."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "a").write_text("same")
    for name in ("b", "inner/c:d"):
        (tmp_path / name).hardlink_to(tmp_path / "a")
    make_names_portable(tmp_path, remove_tree)
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(path.name for path in found) == ["a", "b", "c%3Ad"]
    assert {(path.read_text(), path.stat().st_nlink) for path in found} == {("same", 1)}


@pytest.mark.parametrize("place", ["BENCH_OUT_DIR", "BENCH_WORKSPACE"])
def test_no_name_of_an_agents_keeps_a_run_from_its_upload(tmp_path: Path, plain: Sandbox, place: str) -> None:
    """Such an upload is one of all cells of a shard: a name that it refuses would cost them all their records."""
    script = (
        f"import os\nprint(os.environ['BENCH_OUT_DIR'])\nos.chdir(os.environ[{place!r}])\n"
        f"for at in ['', '.cache/', ':\\n/', 'a\\\\b/', 'x/' * 40]:\n    for name in {WORST!r}:\n"
        "        os.makedirs(at or '.', exist_ok=True); open(at + name, 'w').write(name)\n"
    )
    context = make_context(tmp_path, plain, keep_workspaces=True)
    cell = make_cell(make_agent(tmp_path / "agents", script), make_case(tmp_path / "cases"))
    record = run_cell(cell, context)
    assert record.outcome == "graded", record.error
    # While it works its files lie where nothing is uploaded from: a shard may end in the middle of a cell.
    assert "/scratch/" in (context.trace(cell) / "agent.log").read_text()
    done = uploaded(context.folder, tmp_path / "store")
    assert (done.returncode, done.stderr) == (0, "")
    artifact = tmp_path / "store" / "1" / "shard"
    kept = {"BENCH_OUT_DIR": "out", "BENCH_WORKSPACE": "workspace"}[place]
    # actions/upload-artifact leaves hidden files out, and `collect` would miss what the record names.
    named = {it.place for it in record.artifacts}
    assert {it for it in named if not (artifact / it).is_file()} == set()
    assert any("%2Ehidden" in it for it in named) or place == "BENCH_WORKSPACE"
    names = names_below(artifact / "traces" / cell.slug / kept)
    assert {"%2Ehidden", "%2Ecache/%2Ehidden"} <= set(names)
    assert {"12%3A00.log", "%63on", "CASE", "Case~2", "case~3", "a%5C..%5Cb"} <= set(names)
    assert len({name.casefold() for name in names}) == len(names)
    unpack_artifact(archived(artifact), tmp_path / "unpacked", Caps())
    assert names_below(tmp_path / "unpacked") == names_below(artifact)


def test_a_refused_name_is_refused_by_the_stand_in(tmp_path: Path) -> None:
    folder = tmp_path / "up"
    (folder / "traces").mkdir(parents=True)
    (folder / "traces" / "12:00.log").touch()
    done = uploaded(folder, tmp_path / "store")
    assert done.returncode == 1 and "not valid" in done.stderr
