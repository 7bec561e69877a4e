"""The ledger of decisions: added to, chained, and heeded by everything that counts records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.cli.stored import read_records
from bench.store.branch import ResultsBranch
from bench.store.decisions import Ledger
from tests.helpers.records import make_record
from tests.helpers.sampling import on_push
from tests.helpers.store import BRANCH, WAYS, Target, bundle_of, decision, git, make_bare, mldb, open_target, tip_of


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    bare = make_bare(tmp_path / "results.git")
    branch = ResultsBranch(bare)
    for run in ("night-1", "night-2"):
        records = [make_record(run=run, agent=agent, case=case) for agent in ("aide", "react") for case in ("a", "b")]
        branch.commit(bundle_of(records, run=run))
    return bare


@pytest.fixture(params=on_push(WAYS, ["local", "api"]))
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    with open_target(request.param, tmp_path, monkeypatch) as found:
        yield found


def test_decisions_are_lines_of_a_chain_across_months(target: Target) -> None:
    branch = target.branch()
    branch.commit(bundle_of([make_record()]))
    told = [
        decision(),
        decision("accepted", when="2026-11-30T23:59:59Z"),
        decision(when="2026-12-01T00:00:00Z", agent="react"),
        # A clock that goes wrong must not put a line where no line may be added any more.
        decision("accepted", when="2026-11-30T10:00:00Z", agent="react"),
    ]
    for item in told:
        assert branch.decide(item).new
    assert not branch.decide(told[-1]).new, "the same decision twice is one"
    names = git(target.bare, "ls-tree", "--name-only", BRANCH, "decisions/").split()
    assert names == ["decisions/2026-11.jsonl", "decisions/2026-12.jsonl"]
    lines = [line for name in names for line in git(target.bare, "show", f"{BRANCH}:{name}").splitlines()]
    assert [json.loads(line)["previous"] for line in lines] == [
        None,
        *(sha256_bytes(line.encode()) for line in lines[:-1]),
    ]
    stored = ResultsBranch(target.bare).decisions()
    assert [item.says_the_same(other) for item, other in zip(stored, told, strict=True)] == [True] * 4
    assert git(target.bare, "rev-list", "--count", BRANCH).strip() == "5"
    # Records go on after decisions, in one chain of manifests.
    assert branch.commit(bundle_of([make_record(run="night-2")], run="night-2")).new
    first, second = ResultsBranch(target.bare).manifests()
    assert second.previous == sha256_bytes(first.to_bytes())


def test_a_decision_about_what_is_not_stored_is_refused(target: Target) -> None:
    branch = target.branch()
    with pytest.raises(UserError, match=r"run night-1: nothing is stored yet"):
        branch.decide(decision())
    branch.commit(bundle_of([make_record()], attempt=2))
    tip = tip_of(target.bare)
    for wrong in (decision(run="other"), decision(attempt=1), decision("rescored", replaced_by="other")):
        with pytest.raises(UserError, match="no such run is stored"):
            branch.decide(wrong)
    assert tip_of(target.bare) == tip
    assert branch.decide(decision()).new, "without an attempt any of them will do"
    assert branch.decide(decision(attempt=2)).new


@pytest.mark.parametrize(
    ("facts", "left"),
    [
        ({}, 0),
        ({"attempt": 1}, 0),
        ({"attempt": 2}, 4),
        ({"agent": "react"}, 2),
        ({"case": "a"}, 2),
        ({"agent": "react", "case": "a"}, 3),
        ({"cell": "react/anthropic/claude-sonnet-4-5/a/mini/1"}, 3),
        ({"kind": "accepted"}, 4),
        ({"kind": "rescored", "replaced_by": "night-2"}, 0),
    ],
)
def test_what_was_withdrawn_or_replaced_does_not_count(bare: Path, facts: dict[str, object], left: int) -> None:
    branch = ResultsBranch(bare)
    if facts.get("attempt") == 2:
        branch.commit(bundle_of([make_record(agent="late")], attempt=2))
    branch.decide(decision(**facts))  # type: ignore[arg-type]
    counted = [record for record in branch.records() if record.provenance.run == "night-1"]
    assert len(counted) == left
    assert "late" not in {record.agent.id for record in counted}
    assert sum(record.provenance.run == "night-2" for record in branch.records()) == 4
    assert len(list(branch.records(withdrawn=True))) == 8 + (facts.get("attempt") == 2)
    assert read_records(str(bare), BRANCH) == list(branch.records()), "what tables and pages are made from"


def test_the_last_decision_about_a_record_holds(bare: Path) -> None:
    branch = ResultsBranch(bare)
    branch.decide(decision())
    branch.decide(decision("accepted", agent="react"))
    assert {record.agent.id for record in branch.records() if record.provenance.run == "night-1"} == {"react"}
    branch.decide(decision("accepted"))
    assert len(list(branch.records())) == 8
    ledger = Ledger.of(branch.decisions())
    verdict = ledger.verdict(make_record(agent="aide", case="a"), 1)
    assert verdict is not None
    assert verdict.kind == "accepted"
    assert ledger.verdict(make_record(run="night-2"), 1) is None


@pytest.mark.parametrize(
    "facts",
    [
        {"why": "two\nlines"},
        {"why": "escape \x1b[2J"},
        {"why": " "},
        {"who": ""},
        {"run": "../x"},
        {"kind": "deleted"},
        {"kind": "rescored"},
        {"replaced_by": "night-2"},
        {"kind": "rescored", "replaced_by": "night-1"},
        {"attempt": 0},
        {"when": "yesterday"},
    ],
)
def test_a_decision_that_makes_no_sense_is_refused(facts: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        decision(**facts)  # type: ignore[arg-type]


def test_the_commands_add_and_list_decisions(bare: Path, tmp_path: Path) -> None:
    added = mldb(
        "results", "decide", "results.git", "withdrawn", "--run", "night-1", "--agent", "aide", "--who", "ada",
        "--why", "the key of another agent was used", cwd=tmp_path,
    )  # fmt: skip
    assert added.stdout == f"decision: commit {tip_of(bare)} on branch {BRANCH}\n"
    shown = mldb("results", "decisions", "results.git", cwd=tmp_path).stdout
    assert shown.endswith("withdrawn  night-1 aide  ada: the key of another agent was used\n")
    line = json.loads(mldb("results", "decisions", "results.git", "--json", cwd=tmp_path).stdout)
    assert (line["kind"], line["agent"], line["previous"]) == ("withdrawn", "aide", None)
    table = mldb("results", "show", "results.git", cwd=tmp_path).stdout
    assert "6 records" in table
    assert "8 records" in mldb("results", "show", "results.git", "--withdrawn", cwd=tmp_path).stdout
    for arguments, said in (
        (("--run", "night-9", "--why", "x"), "no such run is stored"),
        (("--run", "NIGHT", "--why", "x"), "field `run`"),
        (("--run", "night-1", "--why", "a\nb"), "must be one line of printable text"),
    ):
        failed = mldb("results", "decide", "results.git", "withdrawn", *arguments, cwd=tmp_path, status=2)
        assert said in failed.stderr
        assert failed.stderr.count("\n") == 1
