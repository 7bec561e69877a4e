"""Small cases, agents and jobs for tests: real ones, written where a test wants them."""

from __future__ import annotations

import atexit
import json
import os
import secrets
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from bench.base.install import DataFolders
from bench.cell.context import CellContext
from bench.formats.agent import Agent, load_agent
from bench.formats.case import Case, load_case
from bench.formats.patch_writing import make_patch
from bench.formats.plan import Cell
from bench.formats.provenance import Provenance
from bench.guest.trees import remove_tree
from bench.judge.grade import Submission, grade_submission
from bench.judge.grading import Grading
from bench.sandbox.job import Ended, Job, JobLimits, Mount, Sandbox
from bench.sandbox.running import run_job

ROOT = Path(__file__).resolve().parents[2]

RIGHT = "def double(x):\n    return 2 * x\n"
WRONG = "def double(x):\n    return x\n"
STARTER = "def double(x):\n    raise NotImplementedError\n"

CHECK = '''
from bench.judge import check, number


@check(weight=2, required=True)
def doubles(ws):
    """Numbers the agent has not seen are doubled."""
    for _ in range(2):
        x = ws.rng.randint(10, 10**6)
        found = number(ws.call("answer:double", x))
        assert found == 2 * x, f"double({x}) is {2 * x}, not {found}"


@check(required=True)
def doubles_in_a_driver(ws):
    """The judge's own driver sees doubling, too."""
    x = ws.rng.randint(10, 10**6)
    found = number(ws.drive("driver.py:doubled", x))
    assert found == 2 * x, f"double({x}) is {2 * x}, not {found}"
'''

DRIVER = """
import json
import random
import statistics


def doubled(x):
    import answer

    return statistics.fmean([json.loads(json.dumps(answer.double(x)))] * random.choice([1, 2]))
"""


def wrong_patch(answer: str, solution: str = RIGHT) -> str:
    """The patch of a wrong answer whose answer.py is `answer`."""
    return make_patch({"answer.py": solution.encode()}, {"answer.py": answer.encode()}).decode()


FILES: dict[str, str] = {
    "task.md": "# Double it\n\nComplete `double(x)` in `answer.py`.\n",
    "README.md": "# double_it\n",
    "check.py": CHECK,
    "hidden/driver.py": DRIVER,
    "workspace/answer.py": STARTER,
    "solution/answer.py": RIGHT,
    "wrong/same/answer.py": WRONG,
    "wrong/adds/answer.py": "def double(x):\n    return x + 2\n",
    "wrong/constant/answer.py": "def double(x):\n    return 2.0\n",
}
"""Of wrong answers the whole files, of which `make_case` makes patches."""

FACTS: dict[str, Any] = {
    "schema": 1,
    "id": "double_it",
    "category": "basics",
    "title": "Double it",
    "source": {"benchmark": "own", "id": "double_it"},
    "limits": {"agent_s": 120, "grade_s": 30, "call_s": 5, "memory_mb": 400, "disk_mb": 64},
    "outputs": {"weight": 0, "files": [{"path": "answer.py", "max_mb": 1}]},
    "wrong": {name: {"about": f"the answer {name}", "fails": ["doubles"]} for name in ("same", "adds", "constant")},
}


def not_here(what: str) -> NoReturn:
    """Skip for want of something that a machine may lack; in CI, where it must be installed, fail."""
    if os.environ.get("CI"):
        pytest.fail(f"CI must offer what is missing: {what}")
    pytest.skip(what)


def write_files(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write `files` below `root`; parents are made."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def as_settings(content: Any) -> str:
    """`content` as YAML without the aliases that the library writes for what occurs twice, and the readers refuse."""
    return str(yaml.safe_dump(json.loads(json.dumps(content)), allow_unicode=True))


def _with_patches(files: Mapping[str, str | bytes], wrong: Mapping[str, Any]) -> dict[str, str | bytes]:
    """`files` with a patch in the place of the texts of each wrong answer."""
    found = dict(files)
    for name, entry in wrong.items():
        place = f"wrong/{name}/"
        texts = {path: text for path, text in files.items() if path.startswith(place) and isinstance(text, str)}
        if not texts or f"wrong/{name}.patch" in files:
            continue
        base: dict[str, bytes] = {}
        for part in ("workspace/", "solution/")[: 1 if entry.get("base") == "starter" else 2]:
            laid = {path.removeprefix(part): content for path, content in files.items() if path.startswith(part)}
            base |= {path: it.encode() if isinstance(it, str) else it for path, it in laid.items()}
        answer = base | {path.removeprefix(place): text.encode() for path, text in texts.items()}
        if patch := make_patch(base, answer):
            found = {path: content for path, content in found.items() if path not in texts}
            found[f"wrong/{name}.patch"] = patch
    return found


def make_case(root: Path, files: Mapping[str, str | bytes | None] | None = None, **facts: Any) -> Case:
    """The case `double_it` below `root`, with other files (None: without that file) and other facts.

    Texts below `wrong/<name>/` become the patch of that answer, unless there is one; bytes stay whole files.
    """
    merged: dict[str, Any] = {**FACTS, **facts}
    if "limits" in facts:
        merged["limits"] = {**FACTS["limits"], **facts["limits"]}
    own = files or {}
    usual = {name: text for name, text in FILES.items() if f"{name.rpartition('/')[0]}.patch" not in own}
    everything = {name: content for name, content in {**usual, **own}.items() if content is not None}
    folder = root / merged["category"] / merged["id"]
    write_files(folder, _with_patches(everything, merged["wrong"]))
    (folder / "case.yaml").write_text(as_settings(merged))
    return load_case(folder)


def make_agent(root: Path, script: str, name: str = "tester", **facts: Any) -> Agent:
    """An agent that runs the Python text `script`."""
    folder = write_files(root / name, {"main.py": script})
    merged = {"schema": 1, "id": name, "command": ["python", "{agent}/main.py"], **facts}
    (folder / "agent.yaml").write_text(as_settings(merged))
    return load_agent(folder)


def make_context(folder: Path, sandbox: Sandbox, **changes: Any) -> CellContext:
    """What the cells of a run in `folder` share."""
    places = DataFolders(cases=folder / "cases", agents=ROOT / "agents", site=ROOT / "site", cache=folder / "cache")
    provenance = Provenance(bench_version="0", run="test", sandbox=sandbox.name, isolated=sandbox.isolated)
    # Short: the name of a Unix socket has at most 107 bytes.
    sockets = Path(f"/tmp/mldb-test-{os.getpid()}-{secrets.token_hex(3)}")
    atexit.register(remove_tree, sockets)
    context = CellContext(
        folder=folder / "run",
        sockets=sockets,
        folders=places,
        sandbox=sandbox,
        provenance=provenance,
        suite_version="2026.11",
        agent_commits={},
    )
    return replace(context, **changes)


def make_cell(agent: Agent, case: Case, trial: int = 1) -> Cell:
    return Cell(agent, dict(agent.spec.models), case, "mini", trial)


def judge(case: Case, folder: Path, files: Mapping[str, str | bytes], sandbox: Sandbox, **changes: Any) -> Grading:
    """The grading of a finished workspace that holds `files`, beside the starter's."""
    snapshot = write_files(folder / f"snapshot-{secrets.token_hex(4)}", files)
    for name in ("hidden", "journals", "scratch"):
        (folder / name).mkdir(exist_ok=True)
    submission = Submission(
        snapshot=snapshot,
        original=case.part("workspace"),
        hidden=folder / "hidden",
        journals=folder / "journals",
        profile="mini",
        sandbox=sandbox.name,
        scratch=folder / "scratch",
    )
    return grade_submission(case, replace(submission, **changes))


def make_limits(**changes: Any) -> JobLimits:
    facts: dict[str, Any] = {
        "wall_s": 20,
        "memory_mb": 1024,
        "processes": 64,
        "open_files": 256,
        "disk_mb": 64,
        "output_mb": 2,
    }
    return JobLimits(**{**facts, **changes})


def make_job(folder: Path, argv: Sequence[str], **changes: Any) -> Job:
    """A job in the writable workspace `folder`."""
    mount = Mount(folder, "/workspace", writable=True)
    facts: dict[str, Any] = {"argv": argv, "mounts": [mount], "cwd": mount, "limits": make_limits()}
    return Job(**{**facts, **changes})


def run_code(sandbox: Sandbox, folder: Path, code: str, *arguments: str, **changes: Any) -> Ended:
    """Run Python text in the sandbox."""
    return run_job(sandbox, make_job(folder, ["python", "-c", code, *arguments], **changes))


def new_token() -> str:
    """A word by which a process of one test is found among all others."""
    return f"token-{secrets.token_hex(8)}"


def processes_with(token: str) -> list[int]:
    """Processes, other than this one, that have `token` in their command line."""
    return [pid for pid, text in _command_lines() if token.encode() in text and pid != os.getpid()]


def _command_lines() -> Iterator[tuple[int, bytes]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                yield int(entry), Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue


def wait_until_gone(token: str, seconds: float = 10) -> list[int]:
    """Processes with `token` that are still there after at most `seconds`."""
    until = time.monotonic() + seconds
    while (found := processes_with(token)) and time.monotonic() < until:
        time.sleep(0.02)
    return found


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]
