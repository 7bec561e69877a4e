"""The build of an environment says what it will do, how far it is, and that it is done; a second one is silent."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from bench.base.files import lock
from bench.cell.build_progress import BuildProgress, Waiting
from bench.cell.environment import agent_python
from bench.cell.watch import CellWatch
from bench.formats.agent import Agent
from bench.sandbox.job import Sandbox
from tests.helpers.cells import make_agent, make_context, write_files
from tests.helpers.wheels import make_wheel


class Heard(CellWatch):
    def __init__(self) -> None:
        self.lines: list[tuple[str, bool]] = []

    def building(self, agent: str, line: str, *, news: bool) -> None:
        assert agent == "tester"
        self.lines.append((line, news))


def tiny_agent(root: Path) -> Agent:
    wheel = make_wheel(root / "tester")
    write_files(root / "tester", {"requirements.txt": f"./{wheel}\n"})
    facts = {"requirements": "requirements.txt", "locked": True, "download_mb": 7}
    return make_agent(root, "", environment=facts)


@pytest.mark.slow
def test_a_build_says_its_size_first_and_its_end_and_a_second_one_nothing(tmp_path: Path, bubblewrap: Sandbox) -> None:
    heard = Heard()
    agent, context = tiny_agent(tmp_path), make_context(tmp_path, bubblewrap, watch=heard)
    agent_python(agent, context)
    assert heard.lines[0] == (
        "building its environment: 1 package, about 7 MB to download; done once for this content",
        True,
    )
    assert heard.lines[-1][0].startswith("environment built in ")
    count = len(heard.lines)
    agent_python(agent, context)
    assert len(heard.lines) == count


def progress(lines: list[str], packages: int = 3, download_mb: int = 100) -> BuildProgress:
    return BuildProgress(lambda line, news: lines.append(line), packages, False, download_mb, lambda: 12_300_000)


def test_what_pip_says_becomes_progress_and_nothing_of_it_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    build = progress(said)
    build.begin()
    assert said == [
        "building its environment: 3 packages and what they need, about 100 MB to download; done once for this content"
    ]
    clock = time.monotonic()
    for at, data, expected in (
        (5, b"Collecting one==1.0 (from -r x)\n  Down", "resolving one, 1 of 3 packages found, 12 of about 100 MB"),
        (10, b"loading https://x/one-1.0-py3.whl (3 MB)\n", "downloading one-1.0-py3.whl, 1 of 3 packages found"),
        (
            15,
            b"Ignoring two: markers 'x' don't match\nProcessing /a/three.whl\n",
            "resolving three.whl, 2 of 2 packages",
        ),
        (20, b"Collecting \x1b[31m\n\x1b]0;x\x07Downloading \n" + b"z" * 5000, "resolving three.whl, 2 of 2 packages"),
        (25, b"\nInstalling collected packages: " + b"a" * 10_000 + b"\n", "unpacking packages"),
    ):
        build.read(data)
        assert build.look() is False
        monkeypatch.setattr(time, "monotonic", lambda at=at: clock + at)
        assert build.look() is False
        assert said[-1].startswith(f"environment: {expected}")
        assert "\x1b" not in said[-1]
        count = len(said)
        assert build.look() is False
        assert len(said) == count, "not more often than every few seconds"


def test_waiting_for_another_build_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("bench.cell.build_progress._FIRST_S", 0.0)
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with lock(tmp_path / "l"):
            entered.set()
            leave.wait(30)

    def tell(line: str, news: bool) -> None:
        said.append(line)
        leave.set()

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(30)
    with lock(tmp_path / "l", waiting=Waiting(tell)):
        holder.join()
    assert said == ["waiting: another process builds the same environment"]
