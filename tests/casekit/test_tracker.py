"""The tracker's journal: each row of a history by itself, where a case asks for that, and each end of a run."""

from __future__ import annotations

import json
from base64 import b64encode
from email.message import Message
from pathlib import Path
from typing import Any

from bench.casekit.services import Request, Service
from bench.casekit.tracker import Tracker

_MAKE = {
    "query": "mutation M($name: String, $project: String) { upsertBucket(input: {name: $name, modelName: $project}) "
    "{ bucket { id } } }",
    "variables": {"name": "r1", "project": "p"},
}


def streamed(folder: Path, *messages: dict[str, Any]) -> Service:
    """The service after a run was made and sent these messages of its stream."""
    tracker, service = Tracker("k", row_names=("loss",)), Service("tracker", folder, 1, folder / "journal.jsonl")
    headers = Message()
    headers["Authorization"] = f"Basic {b64encode(b'api:k').decode()}"
    stream = "/files/bench-team/p/r1/file_stream"
    for path, body in (("/graphql", _MAKE), *((stream, message) for message in messages)):
        answer = tracker(Request("POST", path, {}, headers, json.dumps(body).encode()), service)
        assert answer.status == 200, answer.body
    return service


def rows_of(folder: Path, *rows: str, offset: object = 0) -> list[dict[str, Any]]:
    """The events `row` after one chunk of a history."""
    history = {"files": {"wandb-history.jsonl": {"offset": offset, "content": list(rows)}}}
    return streamed(folder, history).journaled("row")


def test_each_row_is_an_event_with_its_place_and_the_clock_of_the_training(tmp_path: Path) -> None:
    rows = ['{"loss": 0.5, "other": 1, "_timestamp": 10.5}', '{"other": 2}', '{"loss": 0.25, "_timestamp": 12}']
    found = rows_of(tmp_path, *rows, offset=3)
    assert [(it["at"], it["values"], it["at_s"]) for it in found] == [(3, {"loss": 0.5}, 10.5), (5, {"loss": 0.25}, 12)]
    assert {it["run_id"] for it in found} == {"r1"}


def test_odd_values_are_texts_and_a_chunk_without_a_place_is_none(tmp_path: Path) -> None:
    huge, nothing = '{"loss": 1' + "0" * 400 + "}", '{"loss": NaN}'
    found = rows_of(tmp_path, huge, nothing)
    assert [type(it["values"]["loss"]) for it in found] == [str, str]
    (tmp_path / "again").mkdir()
    assert rows_of(tmp_path / "again", '{"loss": 1}', offset="three") == []


def test_all_values_are_noted_however_many_names_a_row_has(tmp_path: Path) -> None:
    """Names that sort behind a hundred others were cut off, so that a second value of theirs was not seen."""
    many = {f"a{number:03}": number for number in range(250)} | {"loss": 2, "_step": 0}
    rows = [json.dumps({"loss": 1}), json.dumps(many)]
    history = {"files": {"wandb-history.jsonl": {"offset": 7, "content": rows}}}
    noted = streamed(tmp_path, history).journaled("values_logged")
    assert [len(event["values"]) for event in noted] == [100, 100, 51]
    assert {name: value for event in noted for name, value in event["values"].items()} == {
        name: value for name, value in many.items() if name != "_step"
    }
    (loss,) = [event for event in noted if "loss" in event["values"]]
    assert (loss["times"]["loss"], loss["at"]["loss"]) == (2, 8)


def test_a_run_that_streams_again_after_its_end_is_open_until_it_ends_again(tmp_path: Path) -> None:
    end: dict[str, Any] = {"complete": True, "exitcode": 0}
    more: dict[str, Any] = {"files": {}}
    service = streamed(tmp_path, more, end, more, more, end, end)
    places = {kind: [it["n"] for it in service.journaled(kind)] for kind in ("run_ended", "run_reopened")}
    assert places == {"run_ended": [2, 4, 5], "run_reopened": [3]}, places
