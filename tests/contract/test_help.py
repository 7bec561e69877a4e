"""An agent may ask: a scripted helper or a person answers, the record says so, and such a trial is never ranked."""

from __future__ import annotations

import io
import json
import os
import pty
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.base.errors import UserError
from bench.base.files import sha256_file
from bench.base.install import DataFolders, find_data_folders
from bench.cell import ScriptedHelper
from bench.cli.ask import PersonAtTerminal, helper_of
from bench.formats.help import HELP_LOG, MOST_QUESTIONS, HelpGiven, HelpRule, HelpRules, questions_in
from bench.formats.plan import RunPlan
from bench.formats.record import Record
from bench.index import open_index
from bench.index.results import IndexedResults
from bench.plan.selection import Request
from bench.report import leaderboard, outcome_line
from bench.runs.execute import Options, plan_and_run, run_plan
from bench.runs.observer import RunObserver
from bench.sandbox.job import Sandbox
from bench.stats import Entrant, RecordResults, Results, rank
from bench.store import ResultsBranch
from bench.store.artifacts import Artifact
from bench.store.collect import PlanCheck
from bench.store.sources import Sources
from tests.helpers.cells import RIGHT, make_agent, make_case, write_files
from tests.helpers.records import make_night
from tests.helpers.store import bundle_of, make_bare

RULES = {
    "schema": 1,
    "rules": [{"pattern": "which * metric", "answer": "Accuracy."}, {"pattern": "metric", "answer": "Ask better."}],
    "default": "I do not know.",
}
ASKS = """
import json, os, threading, urllib.error, urllib.request

def ask(body, method="POST"):
    request = urllib.request.Request(os.environ["BENCH_ASK_URL"], body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)

said = [
    ask(json.dumps({{"question": "Which of them is  the METRIC?"}}).encode()),
    ask("a metric, in plain text: gr\\u00fc\\u00dfe".encode()),
    ask(b"anything else"),
    ask(b""), ask(b"\\xff\\xfe"), ask(b'{{"question": 3}}'), ask(b"x" * 4001), ask(b"x" * 60000), ask(None, "GET"),
]
found = []
threads = [threading.Thread(target=lambda: found.append(ask(b"more"))) for _ in range(30)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
open("answer.py", "w").write({right!r})
json.dump([said, sorted(status for status, _ in found)], open(os.environ["BENCH_OUT_DIR"] + "/said.json", "w"))
"""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataFolders:
    monkeypatch.setenv("ML_DEV_BENCH_CACHE", str(tmp_path / "cache"))
    make_case(tmp_path / "cases")
    suite = {"id": "one", "version": "2026.11", "title": "One", "cases": ["double_it"], "trials": 1}
    write_files(tmp_path, {"cases/suites/one.yaml": yaml.safe_dump(suite), "rules.yaml": yaml.safe_dump(RULES)})
    return find_data_folders(cases=tmp_path / "cases")


def run_once(places: DataFolders, folder: Path, sandbox: Sandbox, script: str, **how: Any) -> tuple[RunPlan, Record]:
    agent = make_agent(folder / "agents", script)
    options = Options(seed_secret="", **how)
    plan, (record,) = plan_and_run(
        Request("one", [str(agent.folder)]), folder / "run", places, lambda: sandbox, options, RunObserver()
    )
    assert record.outcome == "graded", record.error
    return plan, record


def test_questions_are_answered_by_rules_written_down_and_bounded(
    places: DataFolders, tmp_path: Path, bubblewrap: Sandbox
) -> None:
    helper = ScriptedHelper.read(tmp_path / "rules.yaml")
    plan, record = run_once(places, tmp_path, bubblewrap, ASKS.format(right=RIGHT), helper=helper)
    (out,) = (tmp_path / "run").glob("traces/*/out/said.json")
    said, statuses = json.loads(out.read_text())
    assert said[:3] == [
        [200, {"answer": "Accuracy.", "left": 19}],
        [200, {"answer": "Ask better.", "left": 18}],
        [200, {"answer": "I do not know.", "left": 17}],
    ]
    assert [status for status, _ in said[3:7]] == [400] * 4
    assert [status for status, _ in said[8:]] == [405]
    # The limit holds exactly, however many ask at once.
    assert statuses == [200] * (MOST_QUESTIONS - 3) + [403] * 13
    (log,) = (tmp_path / "run").glob(f"traces/*/{HELP_LOG}")
    lines = questions_in(log.read_bytes())
    assert sorted(line.number for line in lines) == list(range(1, MOST_QUESTIONS + 1))
    assert (lines[1].question, lines[1].answer) == ("a metric, in plain text: grüße", "Ask better.")
    assert all(line.seconds >= 0 and line.waited_s >= 0 for line in lines)

    rules = sha256_file(tmp_path / "rules.yaml")
    given = HelpGiven(by="scripted", rules=rules, questions=MOST_QUESTIONS, answered=MOST_QUESTIONS)
    assert (record.help, record.agent.ranked, record.success) == (given, False, True)
    assert f"{MOST_QUESTIONS} questions asked" in outcome_line(record)
    assert {item.name: item.digest for item in record.artifacts}[HELP_LOG] == sha256_file(log)
    assert plan.help == helper.offer
    _forgeries_are_refused(places, tmp_path, plan, record)
    _going_on_needs_the_same_help(places, tmp_path, plan, bubblewrap)


def _forgeries_are_refused(places: DataFolders, tmp_path: Path, plan: RunPlan, record: Record) -> None:
    check = PlanCheck.to(plan, sources=Sources(places))
    artifact = Artifact("run", tmp_path / "run")
    assert record.help is not None
    assert check.read(record.to_line().encode(), "run") == record
    assert check.against_trace(record, artifact) == ""
    kept = [item for item in record.artifacts if item.name != HELP_LOG]
    ranked = record.agent.model_copy(update={"ranked": True})
    fewer = record.help.model_copy(update={"questions": 3, "answered": 3})
    for forged, fault in (
        (record.model_copy(update={"help": None}), "field `help` is None"),
        (record.model_copy(update={"help": None, "artifacts": kept}), "field `help` is None"),
        (record.model_copy(update={"agent": ranked}), "field `agent.ranked` is True"),
        (record.model_copy(update={"artifacts": kept}), "questions were asked"),
    ):
        said = check.read(forged.to_line().encode(), "run")
        assert isinstance(said, str) and fault in said, said
    assert "questions and answers by its help.jsonl" in check.against_trace(
        record.model_copy(update={"help": fewer}), artifact
    )
    # Without the plan's word, what lies beside the record still tells.
    unplanned = PlanCheck.to(plan.model_copy(update={"help": None}), sources=Sources(places))
    silent = record.model_copy(update={"help": None, "artifacts": kept})
    assert isinstance(unplanned.read(record.to_line().encode(), "run"), str)
    assert "it lies beside the record" in unplanned.against_trace(silent, artifact)


def _going_on_needs_the_same_help(places: DataFolders, tmp_path: Path, plan: RunPlan, sandbox: Sandbox) -> None:
    other = ScriptedHelper(HelpRules(), f"sha256:{'0' * 64}")
    for helper in (None, other):
        options = Options(helper=helper, seed_secret="")
        with pytest.raises(UserError, match="the run began with help, scripted"):
            run_plan(plan, None, tmp_path / "run", places, sandbox, options, RunObserver())


def test_without_the_option_nobody_can_be_asked(places: DataFolders, tmp_path: Path, bubblewrap: Sandbox) -> None:
    script = f"import os\nassert 'BENCH_ASK_URL' not in os.environ\nopen('answer.py', 'w').write({RIGHT!r})"
    plan, record = run_once(places, tmp_path, bubblewrap, script)
    assert (plan.help, record.help, record.agent.ranked, record.stop_reason) == (None, None, True, "finished")
    options = Options(helper=ScriptedHelper.read(tmp_path / "rules.yaml"), seed_secret="")
    with pytest.raises(UserError, match="the run began without --ask"):
        run_plan(plan, None, tmp_path / "run", places, bubblewrap, options, RunObserver())


@pytest.mark.parametrize(
    ("pattern", "question", "found"),
    [
        ("learning rate", "What LEARNING\n rate?", True),
        ("which*metric", "which is the metric", True),
        ("which*metric", "the metric is which", False),
        ("a*a*a*b", "a" * 4000, False),
        ("*", "anything", True),
        ("(", "what (is) it", True),
    ],
)
def test_a_pattern_is_a_text_with_stars(pattern: str, question: str, found: bool) -> None:
    began = time.process_time()
    assert HelpRule(pattern=pattern, answer="x").matches(question) is found
    assert time.process_time() - began < 1


def test_a_helped_trial_is_an_entrant_of_its_own_and_takes_the_other_from_no_table(tmp_path: Path) -> None:
    night = make_night()
    agent, model = next((it.agent.id, it.models["main"]) for it in night if it.agent.ranked)
    own = [it for it in night if (it.agent.id, it.models.get("main")) == (agent, model)]
    given = HelpGiven(by="scripted", questions=1, answered=1)
    helped = [
        it.model_copy(
            update={
                "help": given,
                "agent": it.agent.model_copy(update={"ranked": False}),
                "provenance": it.provenance.model_copy(update={"run": "helped-1"}),
            }
        )
        for it in own
    ]
    bare = make_bare(tmp_path / "results.git")
    branch = ResultsBranch(bare)
    for run, records in (("night-1", night), ("helped-1", helped)):
        branch.commit(bundle_of(records, run))
    before = {it.standing.entrant: it.rank for it in rank(RecordResults(night).standings())}
    with open_index(bare, cache=tmp_path / "cache") as index:
        _assert_apart(RecordResults([*night, *helped]), before, model)
        _assert_apart(IndexedResults(index), before, model)


def _assert_apart(results: Results, before: dict[Entrant, int | None], model: str) -> None:
    table = {it.standing.entrant: it for it in rank(results.standings())}
    assert {entrant: it.rank for entrant, it in table.items() if entrant in before} == before
    (extra,) = [it for entrant, it in table.items() if entrant not in before]
    assert extra.standing.entrant.model == f"{model} (helped)"
    assert (extra.rank, extra.standing.ranked) == (None, False)
    assert "(helped)" in leaderboard(results)


def test_a_person_answers_at_the_terminal_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(UserError, match="this is not a terminal, so a person cannot answer"):
        helper_of("person")
    leader, follower = pty.openpty()
    with os.fdopen(follower, "r") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        person, over, found = PersonAtTerminal(), threading.Event(), []

        def ask(until: float) -> None:
            found.append(person.answer("What now?\x1b[31m", "a/cell", until, over))

        assert person.answer("late", "a/cell", time.monotonic() - 1, over) is None
        thread = threading.Thread(target=ask, args=(time.monotonic() + 60,))
        thread.start()
        # What is typed before the question is shown is thrown away, so it is typed until it is taken.
        while thread.is_alive():
            os.write(leader, b"Use fewer layers.\n")
            thread.join(0.3)
        assert found == ["Use fewer layers."]
        thread = threading.Thread(target=ask, args=(time.monotonic() + 60,))
        thread.start()
        over.set()
        thread.join()
        assert found[1] is None
    os.close(leader)


def test_a_file_of_rules_that_is_not_one_is_named(tmp_path: Path) -> None:
    write_files(tmp_path, {"rules.yaml": "schema: 1\nrules: [{pattern: x}]\n"})
    with pytest.raises(UserError, match=r"rules\.0\.answer"):
        helper_of(str(tmp_path / "rules.yaml"))
    assert helper_of("") is None
