"""What people look for: suites, completion, going on after an interrupt, cases of their own, and one sandbox a run."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.base import install
from bench.base.text import counted, within
from bench.cli import run_shard as running
from bench.cli.main import cli
from bench.formats.plan import read_plan_file
from bench.formats.tags import CATEGORIES
from bench.report import leaderboard
from bench.stats import RecordResults, changed_conditions
from tests.helpers.command import mldb
from tests.helpers.records import make_record

PROGRAM = Path(sys.executable).with_name("mldb")
DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["suites", "sh"], "show"),
        (["run", "--ag"], "--agent"),
        (["run", "--agent", "rea"], "react"),
        (["run", "--suite", "smo"], "smoke"),
        (["run", "--case", "hello"], "hello_world"),
    ],
)
def test_the_shell_completes_commands_options_and_names(words: list[str], expected: str) -> None:
    line = shlex.join(["mldb", *words])
    variables = {"_MLDB_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    done = subprocess.run([PROGRAM], env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert f"plain,{expected}" in done.stdout.splitlines(), done.stderr


def test_the_documented_lines_of_completion_are_those_of_click() -> None:
    page = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    for shell in ("bash", "zsh"):
        assert f'eval "$(_ML_DEV_BENCH_COMPLETE={shell}_source ml-dev-bench)"' in page
    variables = {"_ML_DEV_BENCH_COMPLETE": "bash_source"}
    program = PROGRAM.with_name("ml-dev-bench")
    done = subprocess.run([program], env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.stdout.strip().startswith("_ml_dev_bench_completion()"), done.stderr


def test_suites_are_listed_and_shown() -> None:
    listed = CliRunner().invoke(cli, ["suites", "list", "--json"], catch_exceptions=False)
    assert {"smoke", "ml-dev-bench"} <= {suite["id"] for suite in json.loads(listed.output)}
    shown = CliRunner().invoke(cli, ["suites", "show", "smoke"], catch_exceptions=False).output
    assert "2 cases:" in shown and "  basics/hello_world\n" in shown and "trials   1" in shown


def test_several_cases_are_shown_by_one_word() -> None:
    shown = CliRunner().invoke(cli, ["cases", "show", "basics/*", "--json"], catch_exceptions=False)
    found = json.loads(shown.output)
    found = found if isinstance(found, list) else [found]
    assert "hello_world" in {case["id"] for case in found} and {case["category"] for case in found} == {"basics"}


# --- going on --------------------------------------------------------------------------------------------------------


def test_an_interrupted_run_prints_the_command_that_goes_on(tmp_path: Path) -> None:
    """And that command does: it has the run's own sandbox, and the options that do not belong to its beginning."""
    (tmp_path / "slow agent").mkdir()
    marker = tmp_path / "once"
    script = f"test -e {marker} || {{ touch {marker}; sleep 60; }}"
    (tmp_path / "slow agent" / "agent.yaml").write_text(f"id: slow\ncommand: [sh, -c, '{script}']\n")
    asked: list[str | Path] = [
        "run",
        "--agent",
        "slow agent",
        "--case",
        "hello_world",
        "--sandbox",
        "process",
        "--out",
        "my runs",
    ]
    command: list[str | Path] = [PROGRAM, *asked, "--keep-workspaces", "--results", "results.git", "--name", "first"]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not marker.exists() and time.monotonic() < until:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 130, said
    printed = said.strip().splitlines()[-1].split("`")[1]
    assert printed == (
        "ml-dev-bench run --resume 'my runs/first' --sandbox process --results results.git --keep-workspaces"
    )
    again = subprocess.run(
        [PROGRAM, *shlex.split(printed)[1:]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    assert "1 graded cells" in again.stdout and "results: commit" in again.stdout
    # Without the option, too, a resume takes the run's own sandbox, however strong another one is here.
    once_more = mldb("run", "--resume", "my runs/first", cwd=tmp_path)
    assert once_more.returncode == 0 and "sandbox: process" in once_more.stderr, once_more.stderr


def test_shards_on_one_machine_keep_the_sandbox_of_the_first(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    words = ("agents=nop", "cases=hello_world", "--no-seed-secret", "--sandbox", "process", "--out", plan)
    assert mldb("plan", *words).returncode == 0
    made = read_plan_file(plan)
    # As in plans of before, which left it to the machine.
    document = made.model_copy(update={"runs": [made.runs[0].model_copy(update={"sandbox": "auto"})]})
    assert running._sandbox_of(document, tmp_path / "runs", "auto") == "auto"
    other = tmp_path / "runs" / f"{document.runs[0].run}-another"
    other.mkdir(parents=True)
    stored = document.runs[0].model_copy(update={"sandbox": "bubblewrap"})
    (other / "run.json").write_text(stored.model_dump_json(by_alias=True))
    assert running._sandbox_of(document, tmp_path / "runs", "auto") == "bubblewrap"
    told = document.model_copy(update={"runs": [document.runs[0].model_copy(update={"sandbox": "docker"})]})
    assert running._sandbox_of(told, tmp_path / "runs", "auto") == "docker"


# --- cases of one's own ----------------------------------------------------------------------------------------------


def test_an_installed_package_is_never_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a wheel: its cases lie below the package, and a new case goes into a folder of the user's."""
    package = tmp_path / "site-packages" / "bench"
    for name in ("cases", "agents", "site"):
        source = install.find_data_folders().cases.parent / name
        (package / "data").mkdir(parents=True, exist_ok=True)
        (package / "data" / name).symlink_to(source) if name != "cases" else shutil.copytree(
            source, package / "data" / name, ignore=shutil.ignore_patterns("assets", "proofs", "attacks")
        )
    monkeypatch.setattr(install, "_PACKAGE", package.resolve())
    monkeypatch.chdir(tmp_path)
    before = sorted((package / "data" / "cases").rglob("*"))
    runner = CliRunner()
    made = runner.invoke(cli, ["cases", "new", "debugging/mine"], catch_exceptions=False)
    assert (tmp_path / "cases" / "debugging" / "mine" / "case.yaml").is_file(), made.output
    assert "`ml-dev-bench cases verify mine --cases cases`" in made.output
    shown = runner.invoke(cli, ["cases", "show", "mine", "--cases", "cases"], catch_exceptions=False)
    assert "debugging/mine" in shown.output
    # Suites of the installation go with cases that have none of their own.
    for words in (["plan", "agents=nop"], ["plan", "agents=nop", "cases=mine"]):
        planned = runner.invoke(cli, [*words, "--cases", "cases"], catch_exceptions=False)
        assert "1 cell in 1 shard" in planned.output
    own = str(package / "data" / "cases")
    for words in (["cases", "patch", "hello_world", "x", "--from", "."], ["cases", "new", "basics/x", "--cases", own]):
        refused = runner.invoke(cli, words)
        assert "belongs to the installed package" in str(refused.exception)
    assert sorted((package / "data" / "cases").rglob("*")) == before


def test_every_category_is_explained() -> None:
    page = (DOCS / "adding-a-case.md").read_text(encoding="utf-8")
    for name, about in CATEGORIES.items():
        assert f"| `{name}` | {about} |" in page
    root = install.find_data_folders().cases
    assert {path.parent.parent.name for path in root.glob("*/*/case.yaml")} <= CATEGORIES.keys()


# --- small things ----------------------------------------------------------------------------------------------------


def test_other_conditions_than_before_are_told() -> None:
    old = [make_record(run="old", case=case) for case in ("one", "two")]
    same = [make_record(run="new", case="one")]
    assert changed_conditions(same, old) == changed_conditions(same, []) == []
    elsewhere = make_record(run="new", case="two", case_version=2)
    facts = elsewhere.provenance.model_copy(update={"sandbox": "process"})
    machine = elsewhere.machine.model_copy(update={"fingerprint": "another"})
    elsewhere = elsewhere.model_copy(update={"provenance": facts, "machine": machine})
    said = changed_conditions([*same, elsewhere], old)
    assert [line.split(": ")[1].split(" ")[0] for line in said] == ["sandbox", "machine", "two"]
    assert "process" in said[0] and "another" in said[1]
    other = make_record(run="new", agent="aide", case="one")
    assert changed_conditions([other], old) == []


def test_results_of_several_sandboxes_and_machines_are_told_below_the_table() -> None:
    alone = [make_record(agent="aide", case="one"), make_record(agent="react", case="one")]
    assert "warning" not in leaderboard(RecordResults(alone))
    moved = make_record(agent="react", case="two", trial=2)
    facts = moved.provenance.model_copy(update={"sandbox": "process"})
    machine = moved.machine.model_copy(update={"fingerprint": "another"})
    moved = moved.model_copy(update={"provenance": facts, "machine": machine})
    (warning,) = [it for it in leaderboard(RecordResults([*alone, moved])).splitlines() if it.startswith("warning: ")]
    assert warning.startswith("warning: react with ")
    assert "2 sandboxes (" in warning and "process" in warning
    assert "2 machine classes (another, " in warning


def test_counts_and_long_texts() -> None:
    assert [counted(n, "cell") for n in (0, 1, 2, 1000)] == ["0 cells", "1 cell", "2 cells", "1,000 cells"]
    assert counted(2, "entry", "entries") == "2 entries"
    text = "place: " + "x" * 500 + " (remedy)"
    cut = within(text, 100)
    assert len(cut) == 100 and cut.startswith("place: ") and cut.endswith(" (remedy)")
    assert within("short", 100) == "short"
    with contextlib.suppress(ValueError):
        assert len(within(text, 10)) == 10
