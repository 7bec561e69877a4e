"""`results verify` tells every way in which a branch can be other than it was stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.base.errors import UserError
from bench.store.audit import Audit
from bench.store.branch import ResultsBranch
from bench.store.bundle import StoredTrace
from bench.store.reader import open_copy
from bench.store.trace_storage import INLINE
from bench.store.traces import pack
from tests.helpers.records import make_record
from tests.helpers.store import BRANCH, bundle_of, decision, edit, git, make_bare, mldb, tip_of

RUN = "runs/2026/11/20/night-1-1-react.jsonl"
MANIFEST = "manifests/2026/11/20/night-1-1.json"
LATER = "manifests/2026/11/20/night-2-1.json"
LEDGER = "decisions/2026-11.jsonl"
TRACE = pack({"agent.log": b"hello\n"})
TRACE_PATH = f"traces/{TRACE.key}"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    bare = make_bare(tmp_path / "results.git")
    branch = ResultsBranch(bare)
    for run in ("night-1", "night-2"):
        records = [make_record(run=run, agent=agent, case=case) for agent in ("aide", "react") for case in ("a", "b")]
        bundle = bundle_of(records, run=run)
        if run == "night-2":
            cell = records[0].cell
            trace = StoredTrace(cell=cell, digest=TRACE.digest, size=TRACE.size, stored=len(TRACE.data), place=INLINE)
            bundle = replace(bundle, traces=[trace], inline={TRACE_PATH: TRACE.data})
        branch.commit(bundle)
    branch.decide(decision(agent="aide"))
    branch.decide(decision("accepted", agent="aide"))
    return bare


def show(bare: Path, path: str) -> bytes:
    return git(bare, "show", f"{BRANCH}:{path}").encode()


def findings(bare: Path, known: str | None = None) -> list[str]:
    with open_copy(bare, BRANCH, history=True) as copy:
        return [f"{finding.where}: {finding.what}" for finding in Audit(copy).findings(known)]


def test_a_sound_branch_has_no_findings(bare: Path) -> None:
    with open_copy(f"file://{bare}", BRANCH, history=True) as copy:
        audit = Audit(copy)
        assert list(audit.findings(tip_of(bare))) == []
    assert vars(audit.done) == {
        "commits": 4,
        "manifests": 2,
        "files": 4,
        "records": 8,
        "decisions": 2,
        "traces": 1,
    }


def changed_line(bare: Path) -> dict[str, bytes | None]:
    lines = show(bare, RUN).splitlines(keepends=True)
    record = json.loads(lines[0])
    record["score"] = 0.5
    return {RUN: json.dumps(record).encode() + b"\n" + lines[1]}


def doubled_line(bare: Path) -> dict[str, bytes | None]:
    line = show(bare, RUN).splitlines(keepends=True)[0]
    return {RUN: line + line}


def other_run(bare: Path) -> dict[str, bytes | None]:
    return {RUN: show(bare, RUN).replace(b'"run":"night-1"', b'"run":"night-9"')}


def stored_again(bare: Path) -> dict[str, bytes | None]:
    manifest = json.loads(show(bare, MANIFEST))
    manifest["started"] = "2026-11-25T00:00:00Z"
    return {"manifests/2026/11/25/night-1-1.json": json.dumps(manifest).encode()}


Change = Callable[[Path], "dict[str, bytes | None]"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changed_line, [f"{RUN}: was changed by commit", f"{RUN}: size or digest does not match"]),
        (doubled_line, [f"{MANIFEST}: contains the cell react/anthropic/claude-sonnet-4-5/a/mini/1 2 times"]),
        (other_run, [f"{RUN}: line 1: belongs to another run or agent"]),
        (lambda bare: {RUN: show(bare, RUN)[:-1]}, [f"{RUN}: does not end with a line break", "has 1 lines, its"]),
        (lambda bare: {RUN: b"{}\n{}\n"}, [f"{RUN}: line 1: field"]),
        (lambda bare: {RUN: None}, [f"{RUN}: was removed by commit", f"{RUN}: file is missing"]),
        (lambda bare: {"runs/2026/11/20/x.jsonl": b"{}\n"}, ["runs/2026/11/20/x.jsonl: belongs to no manifest"]),
        (
            lambda bare: {MANIFEST: show(bare, MANIFEST).replace(b'"graded": 4', b'"graded": 5')},
            [
                f"{MANIFEST}: its outcome counts",
                f"{LATER}: does not name the manifest stored before it",
            ],
        ),
        (lambda bare: {MANIFEST: b"{]"}, [f"{MANIFEST}: field `document`: Invalid JSON", f"{LATER}: does not name"]),
        (lambda bare: {MANIFEST: None}, [f"{LATER}: does not name", f"{RUN}: belongs to no manifest"]),
        (stored_again, ["manifests/2026/11/25/night-1-1.json: is run night-1-1 for a second time"]),
        (lambda bare: {"keys/6d/night-1-1": b"elsewhere\n"}, ["keys/6d/night-1-1: does not name manifests/2026"]),
        (lambda bare: {"keys/00/other-1": b"x\n"}, ["keys/00/other-1: names a run that is not stored"]),
        (
            lambda bare: {"schema/record-1.json": b"{}\n"},
            ["schema/record-1.json: was changed", "schema that is not in"],
        ),
        (
            lambda bare: {LEDGER: show(bare, LEDGER).replace(b"broken", b"slow", 1)},
            [f"{LEDGER}: lost or changed a line in commit", f"{LEDGER}:2: does not name the decision before it"],
        ),
        (
            lambda bare: {LEDGER: b"".join(show(bare, LEDGER).splitlines(keepends=True)[1:])},
            [f"{LEDGER}: lost or changed a line", f"{LEDGER}:1: does not name"],
        ),
        (lambda bare: {LEDGER: show(bare, LEDGER) + b"{}\n"}, [f"{LEDGER}:3: field"]),
        (lambda bare: {TRACE_PATH: None}, [f"{TRACE_PATH}: was removed", f"{TRACE_PATH}: file is missing"]),
        (lambda bare: {TRACE_PATH: pack({"a": b"b"}).data}, [f"{TRACE_PATH}: does not match its digest"]),
        (lambda bare: {"traces/sha256/00/x.tar.gz": b""}, ["traces/sha256/00/x.tar.gz: belongs to no manifest"]),
    ],
)
def test_every_change_is_found_and_named(bare: Path, change: Change, said: list[str]) -> None:
    edit(bare, change(bare))
    found = findings(bare)
    for text in said:
        assert any(text in line for line in found), found


def test_a_change_that_was_undone_is_still_found(bare: Path) -> None:
    before = show(bare, RUN)
    edit(bare, changed_line(bare))
    edit(bare, {RUN: before})
    found = findings(bare)
    assert [line.split(" commit")[0] for line in found] == [f"{RUN}: was changed by"] * 2


def test_a_history_that_was_replaced_is_told_by_a_known_commit(bare: Path, tmp_path: Path) -> None:
    known = tip_of(bare)
    git(bare, "update-ref", "-d", f"refs/heads/{BRANCH}")
    branch = ResultsBranch(bare)
    branch.commit(bundle_of([make_record(success=False, score=0.0, checks=[])]))
    assert findings(bare) == [], "nothing inside tells"
    assert findings(bare, known) == [f"commit {known[:12]}: is not in the history: the branch was replaced"]
    assert findings(bare, "--output=/tmp/x") == ["commit --output=/tm: is not in the history: the branch was replaced"]


def test_a_merge_and_a_shallow_clone_are_named(bare: Path, tmp_path: Path) -> None:
    tree = git(bare, "rev-parse", f"{BRANCH}^{{tree}}").strip()
    side = git(bare, "commit-tree", tree, "-p", f"{BRANCH}~1", "-m", "side").strip()
    merge = git(bare, "commit-tree", tree, "-p", BRANCH, "-p", side, "-m", "merge").strip()
    git(bare, "update-ref", f"refs/heads/{BRANCH}", merge)
    assert findings(bare) == [f"commit {merge[:12]}: has 2 parents: it was merged by hand"]
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--bare", "--depth=2", "--branch", BRANCH, f"file://{bare}", str(clone))
    with pytest.raises(UserError, match=r"is a shallow clone, without its history \(git fetch --unshallow\)"):
        findings(clone)


def test_the_command_says_so_and_its_status_too(bare: Path, tmp_path: Path) -> None:
    good = mldb("results", "verify", "results.git", "--known", tip_of(bare), cwd=tmp_path)
    counts = "4 commits, 2 manifests, 4 files, 8 records, 2 decisions, 1 traces"
    assert good.stdout == f"0 findings; {counts}; tip {tip_of(bare)}\n"
    edit(bare, {"runs/2026/\x1b[2Jx\n::error::.jsonl": b"", RUN: None})
    bad = mldb("results", "verify", "results.git", cwd=tmp_path, status=1)
    assert f"{RUN}: file is missing\n" in bad.stdout
    assert "\x1b" not in bad.stdout
    assert not any(line.startswith("::") for line in bad.stdout.splitlines())
    document = json.loads(mldb("results", "verify", "results.git", "--json", cwd=tmp_path, status=1).stdout)
    assert {"where": RUN, "what": "file is missing"} in document["findings"]
    assert document["records"] == 6
    missing = mldb("results", "verify", "nowhere", cwd=tmp_path, status=2)
    assert "no such repository" in missing.stderr
