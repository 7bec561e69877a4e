"""A submission service: a limited number of public scores, a private one that counts, and the gap between them."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import UserError
from bench.casekit.public_scores import PublicScores, read_labels, write_labels
from bench.casekit.services import MOST_EVENTS, Request, Response, Service
from bench.cell import run_cell
from bench.cell.services import running_services
from bench.formats.agent_lookup import find_agent
from bench.formats.case import Case
from bench.formats.record import Record
from bench.sandbox.job import Sandbox
from tests.helpers.cells import ROOT, make_agent, make_case, make_cell, make_context, write_files

DATA = """
import json
import random
from bench.casekit.data import stream
from bench.casekit.public_scores import write_labels


def build(public, hidden, profile, seed):
    rng = random.Random(stream(seed, "rows"))
    rows = {f"r{number}": rng.uniform(-1, 1) for number in range(40)}
    (public / "rows.json").write_text(json.dumps(rows))
    write_labels(hidden / "labels.json", {name: int(value > 0) for name, value in rows.items()}, seed)
"""
RATE = """
def rate(labels, predictions):
    wrong = [it for it in predictions.values() if it not in ("0", "1")]
    if wrong:
        raise ValueError(f"a prediction is 0 or 1, not {wrong[0][:20]!r}")
    return sum(str(labels[name]) == predictions[name] for name in labels) / len(labels)
"""
SERVICES = """
from bench.casekit.public_scores import PublicScores
from rate import rate

board = PublicScores(rate)
"""
CHECK = '''
from bench.casekit.public_scores import read_labels
from bench.judge import Labels, check, record_public_scores, submission
from rate import rate


@check(weight=1, required=True)
def predicts(ws):
    """Nine of ten private rows are right."""
    halves = [read_labels(ws.hidden("labels.json"), half) for half in ("public", "private")]
    ids = [name for half in halves for name in half]
    found = submission(ws, "submission.csv", ids={"id": ids}, columns={"label": Labels(["0", "1"])})
    private = rate(halves[1], dict(zip(ids, found["label"], strict=True)))
    record_public_scores(ws, "board", private)
    assert private >= 0.9, f"{private:.2f} of the private rows are right"
'''
SOLUTION = """
import json

rows = json.load(open("rows.json"))
lines = [f"{name},{int(value > 0)}" for name, value in rows.items()]
open("submission.csv", "w").write("\\n".join(["id,label", *lines]) + "\\n")
"""


def board_case(root: Path, **facts: Any) -> Case:
    files: dict[str, str | bytes | None] = {
        "data.py": DATA, "services.py": SERVICES, "check.py": CHECK, "hidden/rate.py": RATE, "hidden/driver.py": None,
        "solution/answer.py": SOLUTION,
        "task.md": "# Predict\n\nWrite `submission.csv`. POST it to `$BOARD_URL/score` for a public score, 3 times.\n",
    }  # fmt: skip
    return make_case(
        root,
        files,
        services={"board": {"env": "BOARD_URL", "public_scores": 3}},
        outputs={"weight": 0, "files": [{"path": "submission.csv", "max_mb": 1}]},
        solution={"run": ["python", "answer.py"]},
        **facts,
    )


# It flips one answer after the other and keeps what the public half likes: the gap that the record shows.
CLIMBER = """
import json, os, random, urllib.error, urllib.request

rows = list(json.load(open("rows.json")))
said = []

def post(guess):
    body = "\\n".join(["id,label", *(f"{name},{value}" for name, value in guess.items())]).encode()
    try:
        with urllib.request.urlopen(os.environ["BOARD_URL"] + "/score", body, timeout=30) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        found = {"status": error.code, **json.load(error)}
    said.append(found)
    return found.get("public_score", -1)

best, guess = -1, {}
for number in range(5):
    tried = {name: random.Random(f"{number}{name}").randint(0, 1) for name in rows}
    value = post(tried)
    if value > best:
        best, guess = value, tried
open("submission.csv", "w").write("\\n".join(["id,label", *(f"{name},{it}" for name, it in guess.items())]))
json.dump(said, open(os.environ["BENCH_OUT_DIR"] + "/said.json", "w"))
"""


def metrics(record: Record) -> dict[str, float]:
    return {it.name: it.value for it in record.metrics}


def test_public_scores_and_the_gap_to_the_private_one_are_recorded(bubblewrap: Sandbox, tmp_path: Path) -> None:
    context = make_context(tmp_path, bubblewrap, seed_key=b"a key of sixteen")
    record = run_cell(make_cell(make_agent(tmp_path, CLIMBER), board_case(tmp_path / "cases")), context)
    assert (record.outcome, record.success) == ("graded", False), record.error
    (said,) = (json.loads(path.read_text()) for path in tmp_path.glob("run/traces/*/out/said.json"))
    told = [it["public_score"] for it in said[:3]]
    assert [(it["used"], it["left"]) for it in said[:3]] == [(1, 2), (2, 1), (3, 0)]
    assert [(it["status"], it["error"], it["left"]) for it in said[3:]] == [(403, "no public scores are left", 0)] * 2
    found = metrics(record)
    assert [found[f"public_score_{place}"] for place in (1, 2, 3)] == told
    assert (found["public_scores_used"], "public_score_4" in found) == (3, False)
    assert found["public_private_gap"] == pytest.approx(told[-1] - found["private_score"])


def test_the_solution_needs_no_public_score(bubblewrap: Sandbox, tmp_path: Path) -> None:
    cell = make_cell(find_agent("oracle", ROOT / "agents"), board_case(tmp_path / "cases"))
    record = run_cell(cell, make_context(tmp_path, bubblewrap))
    assert (record.success, metrics(record)) == (True, {"private_score": 1.0, "public_scores_used": 0.0})


def test_the_number_of_public_scores_is_a_field_of_the_service(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"services.board.public_scores.*1"):
        make_case(tmp_path, services={"board": {"env": "BOARD_URL", "public_scores": 0}})


@contextmanager
def open_board(folder: Path, limit: int) -> Iterator[Path]:
    """The service in its own process, as the runner starts it."""
    write_files(folder, {"case/services.py": SERVICES, "case/hidden/rate.py": RATE})
    hidden, sockets = folder / "built", folder / "s"
    for place in (hidden, sockets):
        place.mkdir(exist_ok=True)
    write_labels(hidden / "labels.json", {f"r{number}": number % 2 for number in range(40)}, 7)
    script, code = folder / "case" / "services.py", [folder / "case" / "hidden"]
    with running_services(script, ["board"], hidden, folder, sockets, 7, code, public_scores={"board": limit}) as paths:
        yield paths["board"]


def ask(path: Path, body: bytes, where: str = "/score", method: str = "POST") -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("board", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(60)
    connection.sock.connect(str(path))
    connection.request(method, where, body)
    answer = connection.getresponse()
    content: dict[str, Any] = json.loads(answer.read() or b"{}")
    connection.close()
    return answer.status, content


RIGHT = "id,label\n" + "".join(f"r{number},{number % 2}\n" for number in range(40))


def test_of_calls_side_by_side_exactly_as_many_are_told_a_score_as_there_are(tmp_path: Path) -> None:
    found: list[int] = []
    with open_board(tmp_path, 7) as path:
        threads = [threading.Thread(target=lambda: found.append(ask(path, RIGHT.encode())[0])) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [200] * 7 + [403] * 33
        assert ask(path, b"", "/", "GET")[1] == {"columns": ["id", "label"], "limit": 7, "used": 7, "left": 0}
    # In another process, as after a crash, they are still used.
    with open_board(tmp_path, 7) as path:
        assert ask(path, RIGHT.encode())[0] == 403
    assert len((tmp_path / "board.jsonl").read_text().splitlines()) == 7


ODD = {
    "nothing": (b"", "the header must be id,label"),
    "no text": (b"\xff\xfe\x00", "is not a CSV in UTF-8"),
    "a quote that does not end": (b'id,label\n"r1,1', "is not a CSV in UTF-8"),
    "another header": (RIGHT.replace("label", "Label").encode(), "the header must be id,label"),
    "a row too few": (RIGHT.rsplit("\n", 2)[0].encode(), "missing ids, such as r39"),
    "an unknown row": (f"{RIGHT}zz,1\n".encode(), "unknown ids, such as zz"),
    "a row twice": (f"{RIGHT}r1,1\n".encode(), "repeats the id 'r1'"),
    "a field too many": (f"{RIGHT}r1,1,1\n".encode(), "has 3 fields"),
    "no label": (RIGHT.replace(",1", ",nan").encode(), "a prediction is 0 or 1"),
    "too large": (RIGHT.encode() + b"\n" * (1 << 20), "is over 1048576 bytes"),
    "a field without end": (b"id,label\n" + b"x" * 200_000, "is not a CSV in UTF-8"),
}


def test_what_is_odd_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    with open_board(tmp_path, 1) as path:
        for name, (body, said) in ODD.items():
            status, answer = ask(path, body)
            assert (status, answer.get("left")) == (400, 1), (name, answer)
            assert said in answer["error"], name
        assert ask(path, b"", "/other")[0] == 404
        assert ask(path, RIGHT.encode(), method="PUT")[0] == 405
        assert ask(path, RIGHT.encode())[1] == {"public_score": 1.0, "used": 1, "left": 0}


def test_halves_are_drawn_by_the_seed_and_do_not_tell_themselves(tmp_path: Path) -> None:
    labels = {f"r{number}": number for number in range(101)}
    halves = []
    for seed in (1, 2):
        write_labels(tmp_path / "labels.json", labels, seed)
        public, private = (read_labels(tmp_path / "labels.json", half) for half in ("public", "private"))
        assert (len(public), len(private), public | private) == (50, 51, labels)
        halves.append(set(public))
    assert halves[0] != halves[1]
    with pytest.raises(ValueError, match="two labels"):
        write_labels(tmp_path / "labels.json", {"one": 1}, 1)


def post(board: PublicScores, service: Service, body: str) -> Response:
    return board(Request("POST", "/score", {}, {}, body.encode()), service)


def test_what_can_no_longer_be_written_down_is_not_told(tmp_path: Path) -> None:
    write_labels(tmp_path / "labels.json", {"a": 1, "b": 0}, 1)
    journal = tmp_path / "board.jsonl"
    journal.write_bytes(b'{"event": "service_error"}\n' * (MOST_EVENTS + 1))
    board = PublicScores(lambda labels, predictions: 0.5)
    service = Service("board", tmp_path, 1, journal, public_scores=5)
    assert post(board, service, "id,label\na,1\nb,1\n").status == 403


def test_a_line_that_a_killed_service_left_is_taken_out(tmp_path: Path) -> None:
    write_labels(tmp_path / "labels.json", {"a": 1, "b": 0}, 1)
    journal = tmp_path / "board.jsonl"
    journal.write_bytes(b'{"event": "public_score", "value": 1}\n{"event": "publ')
    board = PublicScores(lambda labels, predictions: 0.5)
    service = Service("board", tmp_path, 1, journal, public_scores=2)
    answers = [post(board, service, "id,label\na,1\nb,1\n") for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 403]
    assert len(service.journaled("public_score")) == 2
