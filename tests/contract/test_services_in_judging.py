"""A product that calls a service: the judge runs it with a service of its own, and reads what that one saw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.authoring import open_verifier
from bench.base.install import DataFolders
from bench.cell import CellFolder, Overlay, run_agent, run_cell
from bench.cell.services import running_services
from bench.formats.agent_lookup import find_agent
from bench.formats.case import Case
from bench.judge.deadline import Deadline
from bench.judge.subject import Subject
from bench.sandbox import CannotFork
from bench.sandbox.job import Sandbox
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import ROOT, make_agent, make_case, make_cell, make_context, make_limits, write_files

SERVICE = """
from bench.casekit.services import Request, Response, Service


def adder(request: Request, service: Service) -> Response:
    with service.lock:
        service.state["calls"] = service.state.get("calls", 0) + 1
    left, right = (int(request.query[name][0]) for name in ("a", "b"))
    service.journal({"event": "added", "a": left, "b": right, "phase": service.phase})
    return Response.json({"sum": left + right, "calls": service.state["calls"]})
"""
PRODUCT = '''
import json
import os
import sys
import urllib.request


def asked(a, b):
    address = f"{os.environ['ADDER_URL']}/add?a={a}&b={b}"
    with urllib.request.urlopen(address, timeout=20) as answer:
        return json.load(answer)


def double(x):
    """Twice x, by the service."""
    return asked(x, x)["sum"]


if __name__ == "__main__":
    print(double(int(sys.argv[1])))
'''
CHECKS = '''
from bench.judge import check, integer


def added(ws, during):
    return [it for it in ws.journal("adder", during=during) if it["event"] == "added"]


@check(weight=2, required=True)
def doubles(ws):
    """A number is doubled by a call of the service, which the judge sees."""
    x = ws.rng.randint(10, 10**6)
    assert integer(ws.call("answer:double", x)) == 2 * x, "not doubled"
    seen = [(it["a"], it["b"]) for it in added(ws, "judging")]
    assert seen[-1:] == [(x, x)], f"the service saw {seen}"


@check(required=True)
def doubles_as_a_program(ws):
    """The program asks the service, too."""
    x = ws.rng.randint(10, 10**6)
    said = ws.run(["python", "answer.py", str(x)]).ok().stdout
    assert said.strip() == str(2 * x), said[:100]
    assert [it["a"] for it in added(ws, "judging")][-1:] == [x], "the service was not asked"


@check()
def was_tried(ws):
    """The agent tried it out while it worked."""
    assert [it["phase"] for it in added(ws, "agent")] == ["agent"], "not tried once"
    assert all(it["phase"] == "judging" for it in added(ws, "judging")), "journals are mixed"
'''
OFFLINE = """
import sys


def double(x):
    return 2 * x


if __name__ == "__main__":
    print(2 * int(sys.argv[1]))
"""


def calling_case(root: Path, **facts: Any) -> Case:
    files: dict[str, str | bytes | None] = {
        "check.py": CHECKS, "services.py": SERVICE, "solution/answer.py": PRODUCT, "hidden/driver.py": None,
        "wrong/constant/answer.py": PRODUCT.replace('["sum"]', '["calls"]'), "wrong/same/answer.py": OFFLINE,
        "task.md": "# Double it\n\nComplete `answer.py` with the service at `ADDER_URL`.\n",
    }  # fmt: skip
    return make_case(
        root,
        files,
        services={"adder": {"env": "ADDER_URL", "during": ["agent", "judging"]}},
        solution={"run": ["python", "answer.py", "3"]},
        **facts,
    )


@pytest.mark.slow
def test_such_a_case_proves_itself(variant_sandbox: Sandbox, tmp_path: Path) -> None:
    case = calling_case(tmp_path / "cases")
    places = DataFolders(cases=tmp_path / "cases", agents=ROOT / "agents", site=ROOT / "site", cache=tmp_path / "cache")
    with open_verifier(places, variant_sandbox) as verifier:
        assert [(proof.name, proof.detail) for proof in verifier.verify(case) if not proof.ok] == []


def test_each_grading_has_a_service_and_a_journal_of_its_own(bubblewrap: Sandbox, tmp_path: Path) -> None:
    case = calling_case(tmp_path / "cases")
    cell = make_cell(find_agent("oracle", ROOT / "agents"), case)
    folder = CellFolder.prepare(cell, make_context(tmp_path, bubblewrap), tmp_path / "work" / "cell")
    run_agent(folder, Overlay(case.part("solution"), case.spec.solution.run))
    folder.take_snapshot()
    gradings = [folder.grade(), folder.grade()]
    assert [(it.success, it.score, it.broken) for it in gradings] == [(True, 1.0, "")] * 2
    journals = sorted(folder.path.glob("judging-*/adder.jsonl"))
    # A service that went on would have counted further, and written below the other's lines.
    assert [len(path.read_text().splitlines()) for path in journals] == [2, 2]
    assert not any(it.network_attempts for it in gradings)


def test_without_forks_a_call_reaches_the_service_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise CannotFork("not here")

    # The judge is a process of its own, so this one judges itself: only the way of a call is at stake.
    write_files(tmp_path, {"answer.py": PRODUCT, "case/services.py": SERVICE})
    monkeypatch.setattr(Subject, "_fork", refused)
    sockets = tmp_path / "s"
    sockets.mkdir()
    with running_services(tmp_path / "case" / "services.py", ["adder"], tmp_path, tmp_path, sockets, 1) as paths:
        services = {"ADDER_URL": paths["adder"]}
        subject = Subject(ProcessSandbox(), tmp_path, (), make_limits(), Deadline(60), services=services)
        assert subject.call("answer:double", (21,), {}, timeout=20, driver=None) == 42


def test_a_service_of_the_agent_phase_alone_is_not_there_when_it_is_judged(tmp_path: Path) -> None:
    case = make_case(
        tmp_path / "other", {"services.py": SERVICE, "check.py": CHECKS}, services={"adder": {"env": "ADDER_URL"}}
    )
    agent = make_agent(tmp_path, f"open('answer.py', 'w').write({PRODUCT!r})")
    record = run_cell(make_cell(agent, case), make_context(tmp_path, ProcessSandbox()))
    assert (record.outcome, record.success) == ("graded", False)
    assert "ADDER_URL" in record.checks[1].message


FLOOD = """
import os
import socket
import urllib.request


def hold(count):
    port = int(os.environ["ADDER_URL"].rpartition(":")[2])
    held = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    return len(held)


def double(x):
    with urllib.request.urlopen(f"{os.environ['ADDER_URL']}/add?a={x}&b={x}", timeout=20) as answer:
        return int(answer.read().split(b":")[1].split(b",")[0])
"""


def test_a_call_that_holds_many_connections_leaves_the_next_one_what_it_needs(
    bubblewrap: Sandbox, tmp_path: Path
) -> None:
    write_files(tmp_path, {"work/answer.py": FLOOD, "case/services.py": SERVICE})
    sockets = tmp_path / "s"
    sockets.mkdir()
    with running_services(tmp_path / "case" / "services.py", ["adder"], tmp_path, tmp_path, sockets, 1) as paths:
        services = {"ADDER_URL": paths["adder"]}
        limits = make_limits()
        subject = Subject(bubblewrap, tmp_path / "work", (), limits, Deadline(60), services=services)
        try:
            assert subject.call("answer:hold", (120,), {}, timeout=20, driver=None) == 120
            assert subject.call("answer:double", (21,), {}, timeout=20, driver=None) == 42
            assert not subject.network_attempts
        finally:
            subject.close()
