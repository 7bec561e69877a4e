"""Start-up stays cheap: what a fresh interpreter loads for the commands people type most."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.cells import ROOT
from tests.helpers.terminal import FLOOR, first_output

HEAVY = (
    "torch",
    "pandas",
    "litellm",
    "docker",
    "github",
    "boto3",
    "numpy",
    "scipy",
    "jinja2",
    "httpx",
    "sklearn",
    "rich",
)


def modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split("\n"))


def run_cli(*arguments: str) -> str:
    return f"from bench.cli.main import cli\ncli.main({list(arguments)!r}, standalone_mode=False)"


@pytest.mark.parametrize(
    "code", ["import bench", run_cli("--help"), run_cli("cases", "list"), run_cli("agents", "list")]
)
def test_nothing_heavy_is_loaded_at_start_up(code: str) -> None:
    loaded = modules_after(code)
    assert "bench" in loaded
    assert not [name for name in HEAVY if name in loaded]


def test_a_run_loads_nothing_heavy(tmp_path: Path) -> None:
    words = ("run", "--case", "hello_world", "--agent", "nop", "--sandbox", "process", "--out", str(tmp_path))
    loaded = modules_after(run_cli(*words))
    assert "bench.runs.execute" in loaded
    assert not [name for name in HEAVY if name in loaded]


def test_help_needs_no_validation_library() -> None:
    loaded = modules_after(run_cli("--help"))
    assert not {"pydantic", "yaml", "asyncio"} & loaded


@pytest.mark.parametrize("command", ["results show", "doctor", "trends", "smoke", "init", "plan", "run", "compare"])
def test_help_loads_no_models(command: str) -> None:
    loaded = modules_after(run_cli(*command.split(), "--help"))
    assert not {"pydantic", "yaml", "asyncio", *HEAVY} & loaded


@pytest.mark.parametrize("words", ["results show .", "doctor", "compare a b", "run --agent nop"])
def test_a_command_says_something_on_a_terminal_before_it_has_loaded(words: str) -> None:
    """By CPU, which other work on the machine can only raise: 30 bare interpreters are the 300 ms of a quiet one."""
    tries = [first_output([sys.executable, "-m", "bench", *words.split()], ROOT) for _ in range(3)]
    start = f"ml-dev-bench {words.split(maxsplit=1)[0]}: starting"
    assert all(it.said.startswith(start) for it in tries), tries
    floor = min(first_output(FLOOR, ROOT).cpu for _ in range(3))
    assert 0 < min(it.cpu for it in tries) < 30 * floor, (tries, floor)


def test_listing_cases_builds_no_models() -> None:
    assert "pydantic" not in modules_after(run_cli("cases", "list"))


def test_json_needs_no_terminal_library() -> None:
    assert "rich" not in modules_after(run_cli("doctor", "--json"))


def test_the_judge_api_is_standard_library_only() -> None:
    loaded = modules_after("import bench.judge, bench.judge.process")
    assert not {"pydantic", "yaml", "click", "numpy"} & loaded


def test_importing_the_package_has_no_effect() -> None:
    before = modules_after("pass")
    assert set(modules_after("import bench") - before) <= {"bench", "__future__"}
