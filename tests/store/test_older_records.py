"""Old lines are read in today's shape; what is too old, or too new, is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import UserError
from bench.formats.older_records import READABLE, read_line
from bench.formats.record import RECORD_SCHEMA, Record
from bench.store.branch import ResultsBranch
from tests.helpers.records import make_record
from tests.helpers.store import bundle_of, edit, make_bare

FIRST = Path(__file__).parents[1] / "data" / "record-0.json"
"""A record that the code of the project's first commit (b8c4d68) wrote, under the number that is now its own."""


def old(**changes: Any) -> bytes:
    document: dict[str, Any] = {**json.loads(FIRST.read_text()), **changes}
    return json.dumps(document).encode()


def test_the_current_and_the_previous_schema_are_readable() -> None:
    assert READABLE == (RECORD_SCHEMA - 1, RECORD_SCHEMA)
    new = make_record()
    assert read_line(new.to_line().encode(), "x") == new


def test_a_record_of_the_first_commit_says_today_what_it_knew() -> None:
    record = read_line(old(), "x")
    assert record.schema_ == RECORD_SCHEMA
    usage = record.usage[0]
    assert usage.tokens.cache_write == 300
    assert usage.tokens.cache_write_1h is None, "how long they were kept is not known, which is not none"
    assert (usage.faults, usage.at_risk_usd, usage.waited_s, record.limits.tokens) == ({}, 0.0, 0.0, None)
    known, today = json.loads(FIRST.read_text()), json.loads(record.to_line())
    for name in ("cell", "score", "success", "checks", "cost_usd", "started", "machine"):
        assert today[name] == known[name], name
    unknown = {"enforcement": "", "image": "", "judge": "", "seed_secret": "", "sequential": None}
    assert today["provenance"] == {**known["provenance"], **unknown}


def test_without_cache_writes_none_were_kept_for_an_hour() -> None:
    usage = json.loads(FIRST.read_text())["usage"]
    usage[0]["tokens"]["cache_write"] = 0
    assert read_line(old(usage=usage), "x").usage[0].tokens.cache_write_1h == 0


def test_what_an_old_cell_without_a_verdict_had_come_to_is_no_verdict() -> None:
    record = read_line(old(outcome="interrupted", cause="interrupted"), "x")
    assert (record.outcome, record.success, record.score, record.stop_reason) == ("interrupted", None, None, None)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (old(schema=7), r"here: is a record of schema 7, this program reads 0 and 1 \(read it with the version"),
        (old(schema=-1), "is a record of schema -1"),
        (old(schema="0"), "is a record of schema '0'"),
        (old(schema=False), "is a record of schema False"),
        (old(schema=None), "is a record of schema None"),
        (old(schema=0, usage=5), "field `usage`: 5: must be a list.*not a record of schema 0"),
        (old(schema=0, usage=[5]), "field `usage.0`"),
        (old(schema=0, usage=[{"tokens": 5}]), "field `usage.0"),
        (old(schema=0, surprise=1), "field `surprise`: unknown field.*not a record of schema 0"),
        (old(schema=1, surprise=1), "not a record of schema 1"),
        (b"[]", "not a record of schema 1"),
        (b"[" * 100_000, "not a record of schema 1"),
        (b"\xff", "not a record of schema 1"),
    ],
)
def test_any_other_line_is_refused_by_name(line: bytes, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_line(line, "here")


def test_a_branch_may_hold_both(tmp_path: Path) -> None:
    bare = make_bare(tmp_path / "results.git")
    branch = ResultsBranch(bare)
    branch.commit(bundle_of([make_record(run="night-2")], run="night-2"))
    line = json.dumps(json.loads(old())).encode() + b"\n"
    edit(bare, {"runs/2026/01/01/night-1-1-react.jsonl": line})
    records = list(branch.records())
    assert [record.schema_ for record in records] == [1, 1]
    assert all(isinstance(record, Record) for record in records)
    assert {record.provenance.run for record in records} == {"night-1", "night-2"}
