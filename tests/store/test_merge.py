"""What lies beside a record contradicts it, also where the record says that there is no verdict."""

from __future__ import annotations

from pathlib import Path
from typing import cast, get_args

import pytest

from bench.formats.model_usage import ModelUsage
from bench.gateway import CallLine
from bench.gateway.request import CONVERSATIONS, Dialect
from bench.store.merge import trace_faults
from bench.store.sources import Basis
from tests.helpers.store import taken

QUOTA = "status 429 You exceeded your current quota [insufficient_quota]"


def line(status: str, http: int, said: str = "", model: str = "openai/a") -> CallLine:
    told = {"status": status, "http": http, "error": said, "code": "failed" if said else "ok"}
    return CallLine.model_validate(
        {"time": "2026-11-01T00:00:00Z", "role": "main", "alias": "m", "model": model} | told
    )


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        ([line("ok", 200), line("failed", 502, "x"), line("probe", 429, QUOTA), line("probe", 429, QUOTA)], True),
        ([line("ok", 200, model="openai/b"), line("probe", 402, "status 402")], True),
        ([line("failed", 502, "x"), line("probe", 429, QUOTA)], False),
        ([line("ok", 200, model="anthropic/a"), line("probe", 429, QUOTA)], False),
        ([line("ok", 200), line("probe", 429, QUOTA), line("probe", 503, "status 503")], False),
        ([line("ok", 200), line("probe", 0, "no answer within 10 s")], False),
        ([line("ok", 200), line("probe", 429, QUOTA), line("probe", 200)], False),
        ([line("ok", 200)], False),
        ([], False),
    ],
)
def test_an_outage_that_was_a_used_up_account_is_refused(tmp_path: Path, lines: list[CallLine], refused: bool) -> None:
    ledger = b"".join(it.model_dump_json().encode() + b"\n" for it in lines)
    item = taken(tmp_path / "run", {"calls.jsonl": ledger}, outcome="infra", cause="gateway_error")
    faults = list(trace_faults(item.record, cast(Basis, None), item.artifact))
    assert bool(faults) == refused
    assert not refused or "field `cause` is 'gateway_error', and must be 'quota_used_up, or a verdict'" in faults[0]


@pytest.mark.parametrize("protocol", get_args(Dialect))
def test_a_call_counts_in_the_trace_as_the_gateway_counts_it(tmp_path: Path, protocol: Dialect) -> None:
    """A record that contradicts its trace is refused: an agent could so keep its failures from being stored."""
    lines = [line("ok", 200), line("ok", 200).model_copy(update={"protocol": protocol})]
    ledger = b"".join(it.model_dump_json().encode() + b"\n" for it in lines)
    usage = [ModelUsage(model="openai/a", calls=1 + (protocol in CONVERSATIONS))]
    item = taken(tmp_path / "run", {"calls.jsonl": ledger}, usage=usage)
    assert list(trace_faults(item.record, cast(Basis, None), item.artifact)) == []
