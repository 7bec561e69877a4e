"""Success at any step and at the end: snapshots while an agent works, judged later, beside the record."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from bench.base.errors import UserError
from bench.base.install import DataFolders, find_data_folders
from bench.cli.main import cli
from bench.formats.record import Record
from bench.formats.run_folder import RunFolder
from bench.formats.step_snapshots import INDEX, SCORES, STORE, CellStepScores, SnapshotRule, StepSnapshots
from bench.plan.selection import Request
from bench.runs import step_scores
from bench.runs.execute import Options, plan_and_run
from bench.runs.observer import RunObserver
from bench.runs.step_scores import score_steps
from bench.sandbox.job import Sandbox
from tests.helpers.cells import RIGHT, WRONG, make_agent, make_case, write_files

AGENT = """
import json, os, time, urllib.request

def call():
    body = json.dumps({{"model": os.environ["BENCH_MODEL"], "messages": [{{"role": "user", "content": "x"}}]}})
    headers = {{"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}}
    address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    urllib.request.urlopen(urllib.request.Request(address, body.encode(), headers), timeout=30).read()

def reached(name):
    path = os.environ["BENCH_OUT_DIR"] + "/milestone.json"
    json.dump({{"name": name}}, open(path + ".new", "w"))
    os.replace(path + ".new", path)

def taken(count):
    until = time.monotonic() + 60
    while not os.path.exists(f"go-{{count}}") and time.monotonic() < until:
        time.sleep(0.05)
    os.remove(f"go-{{count}}")

os.mkdir("kept")
call()
open("answer.py", "w").write({right!r})
reached("it doubles")
taken(1)
call()
call()
taken(2)
open("answer.py", "w").write({wrong!r})
"""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataFolders:
    monkeypatch.setenv("ML_DEV_BENCH_CACHE", str(tmp_path / "cache"))
    make_case(tmp_path / "cases", metric={"name": "rate", "direction": "higher", "baseline": 0.1, "target": 1})
    suite = {"id": "one", "version": "2026.11", "title": "One", "cases": ["double_it"], "trials": 1}
    write_files(tmp_path / "cases" / "suites", {"one.yaml": yaml.safe_dump(suite)})
    return find_data_folders(cases=tmp_path / "cases")


@contextlib.contextmanager
def telling(run: Path) -> Iterator[None]:
    """Tell the agent of each snapshot that was taken, by a file in its workspace: the runner itself never would."""
    ended = threading.Event()

    def tell() -> None:
        told = 0
        while not ended.wait(0.05):
            with contextlib.suppress(ValueError, OSError):
                count = len(index_of(run).snapshots)
                (workspace,) = run.glob("scratch/work/*/workspace")
                if count > told:
                    (workspace / f"go-{count}").touch()
                    told = count

    thread = threading.Thread(target=tell)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def run_once(places: DataFolders, folder: Path, sandbox: Sandbox, script: str, rule: str) -> Record:
    agent = make_agent(folder / "agents", script, models={"main": "replay/@answers"})
    how = Options(snapshots=SnapshotRule.parse(rule))
    with telling(folder / "run"):
        _, (record,) = plan_and_run(
            Request("one", [str(agent.folder)]), folder / "run", places, lambda: sandbox, how, RunObserver()
        )
    assert record.outcome == "graded", record.error
    return record


def index_of(run: Path) -> StepSnapshots:
    (path,) = run.glob(f"traces/*/{INDEX}")
    return StepSnapshots.model_validate_json(path.read_bytes())


def opener(sandbox: Sandbox) -> Callable[[str], Sandbox]:
    return lambda name: sandbox


def test_success_that_was_lost_is_found_and_the_record_stays_as_it_is(
    places: DataFolders, tmp_path: Path, bubblewrap: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = AGENT.format(right=RIGHT, wrong=WRONG)
    record = run_once(places, tmp_path, bubblewrap, script, "every=2,milestones")
    run = tmp_path / "run"
    assert (record.success, record.steps) == (False, 3)
    index = index_of(run)
    assert [(it.kind, it.name, it.step) for it in index.snapshots] == [("milestone", "it doubles", 1), ("step", "", 3)]
    assert [it.usd for it in index.snapshots] == [0.0, 0.0]
    assert index.snapshots[0].seconds < index.snapshots[1].seconds
    assert [item.name for item in record.artifacts].count(INDEX) == 1
    # The same files are stored once: the tree, the answer, and what else the workspace holds.
    (store,) = run.glob(f"traces/*/{STORE}")
    assert index.snapshots[0].tree == index.snapshots[1].tree
    assert len(list(store.iterdir())) == 1 + index.snapshots[0].files
    before = RunFolder(run).record_files()[0].read_bytes()

    said: list[str] = []

    def ended(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_steps(run, "", places, opener(bubblewrap), ended)
    (file,) = (run / SCORES).iterdir()
    kept = CellStepScores.model_validate_json(file.read_bytes())
    assert [(it.kind, it.success) for it in kept.scores] == [("milestone", True), ("end", False)]
    said.clear()
    (scores,) = score_steps(run, "", places, opener(bubblewrap), said.append)
    assert said == [f"{record.cell}: snapshot 2 of 2"]
    assert [(it.kind, it.score, it.success) for it in scores.scores] == [
        ("milestone", 1.0, True), ("step", 1.0, True), ("end", 0.0, False),
    ]  # fmt: skip
    assert (scores.succeeded_once, scores.lost_it) == (True, True)
    assert RunFolder(run).record_files()[0].read_bytes() == before

    told = CliRunner().invoke(cli, ["results", "score-steps", str(run), "--cases", str(places.cases)])
    assert told.exit_code == 0, told.output
    assert "tester: success at some step in 1 of 1 cell, at the end in 0; had it and lost it in 1" in told.output
    asked = ["results", "score-steps", str(run), record.cell, "--json", "--cases", str(places.cases)]
    facts = json.loads(CliRunner().invoke(cli, asked).stdout)
    assert facts["agents"]["tester"] == {
        "cells": 1, "succeeded_once": 1, "succeeded_at_end": 0, "lost_it": 1, "unjudged_snapshots": 0,
    }  # fmt: skip

    def collides(*_: object) -> None:
        raise FileExistsError(17, "File exists")

    file.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(step_scores, "_restore", collides)
        (unjudged,) = score_steps(run, "", places, opener(bubblewrap))
    assert [(it.success, it.error) for it in unjudged.scores[:2]] == [(None, "[Errno 17] File exists")] * 2

    (store / index.snapshots[0].tree.removeprefix("sha256:")).write_bytes(b"{}")
    file.unlink(missing_ok=True)
    with pytest.raises(UserError, match="is not what was stored"):
        score_steps(run, "", places, opener(bubblewrap))
    (path,) = run.glob(f"traces/*/{INDEX}")
    path.write_text(path.read_text().replace("it doubles", "it is done"))
    with pytest.raises(UserError, match="is not the file that the record names"):
        score_steps(run, "", places, opener(bubblewrap))


HOSTILE = """
import json, os, time
out = os.environ["BENCH_OUT_DIR"]
open("answer.py", "w").write({right!r})
os.symlink({secret!r}, "link.txt")
os.symlink(os.path.dirname({secret!r}), "folder")
os.mkfifo("pipe")
os.mkfifo(out + "/milestone.json")
time.sleep(1.5)
os.unlink(out + "/milestone.json")
os.symlink({secret!r}, out + "/milestone.json")
time.sleep(1.5)
os.unlink(out + "/milestone.json")
open(out + "/milestone.json", "w").write("[" * 5000)
until = time.monotonic() + 60
while not os.path.exists("go-1") and time.monotonic() < until:
    time.sleep(0.05)
# Where the run lies an agent finds decoys at most.
found = [os.path.join(root, name) for top in (out, {trace!r}) for root, _, names in os.walk(top) for name in names
         if name == "snapshots.json" or os.path.basename(root) == "snapshots"]
json.dump(found, open(out + "/found.json", "w"))
"""


def test_an_agent_cannot_reach_a_snapshot_nor_have_it_read_what_is_not_its_own(
    places: DataFolders, tmp_path: Path, bubblewrap: Sandbox
) -> None:
    secret = write_files(tmp_path, {"secret/secret.txt": "nobody shall read this"}) / "secret" / "secret.txt"
    trace = tmp_path / "run" / "traces"
    script = HOSTILE.format(right=RIGHT, secret=str(secret), trace=str(trace))
    record = run_once(places, tmp_path, bubblewrap, script, "milestones")
    assert record.success
    index = index_of(tmp_path / "run")
    # A pipe and a link are not signals; what cannot be read as JSON is one without a name.
    assert [(it.kind, it.name, it.dropped) for it in index.snapshots] == [("milestone", "", 3)]
    assert index.left_out == {}
    (out,) = trace.glob("*/out/found.json")
    assert json.loads(out.read_text()) == []
    kept = [path.read_bytes() for path in trace.glob(f"*/{STORE}/*")]
    assert kept and not any(b"nobody shall read this" in content for content in kept)


def test_without_the_option_nothing_is_kept_and_there_is_nothing_to_score(
    places: DataFolders, tmp_path: Path, bubblewrap: Sandbox
) -> None:
    record = run_once(places, tmp_path, bubblewrap, f"open('answer.py', 'w').write({RIGHT!r})", "")
    assert record.success and not list(tmp_path.glob("run/traces/*/snapshots*"))
    with pytest.raises(UserError, match="has no snapshots of a graded cell"):
        score_steps(tmp_path / "run", "", places, opener(bubblewrap))
    with pytest.raises(UserError, match="is not a cell of this run"):
        score_steps(tmp_path / "run", "nobody", places, opener(bubblewrap))
