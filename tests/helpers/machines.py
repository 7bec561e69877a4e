"""Machines for tests: options for the stand-in, demands; and a child process that is killed where a test says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from bench.github import open_runners
from bench.machines import Demand, Ec2Engine, Engine, Run, SkyEngine, SkyOptions, provision_all
from bench.machines.settings import Ec2Options
from bench.machines.sky.server import server_of
from tests.helpers.github_rest import TOKEN, Service

if TYPE_CHECKING:
    from tests.helpers.aws import Cloud
    from tests.helpers.skypilot import Pilot

REPOSITORY = "owner/agents"
DEMANDS = [Demand(f"box-00{number}", "box", 4, 16_000, 1, 2.0) for number in (1, 2)]
BUDGET = 100.0
How = Literal["killed", "cancelled"]
_ROOT = Path(__file__).parents[2]
_WATCHED = (str(_ROOT / "bench" / "machines"), str(_ROOT / "bench" / "github" / "r"))
"""The room, and runners and REST of `bench.github`."""


def options_for(cloud: Cloud, **changes: Any) -> Ec2Options:
    """A place in each region, with two subnets and two types."""
    from tests.helpers.aws import REGIONS

    places = [
        {"region": region, "image": cloud.image(region), "subnets": cloud.subnets(region)[:2]} for region in REGIONS
    ]
    machine = {"types": ["g5.xlarge", "g4dn.xlarge"], "disk_gb": 80}
    return Ec2Options.model_validate({"places": places, "machines": {"box": machine}, **changes})


def sky_options(**changes: Any) -> SkyOptions:
    """One class, in two places."""
    machine = {"infra": ["gcp/us-central1", "k8s/lab"], "accelerators": "L4:1", "image": "docker:registry.invalid/mldb"}
    return SkyOptions.model_validate({"machines": {"box": {**machine, "usd_per_hour": 1.0}}, **changes})


def later(**passed: float) -> Callable[[], datetime]:
    """A clock that is ahead."""
    return lambda: datetime.now(UTC).replace(microsecond=0) + timedelta(**passed)


def provision_once(engine: Engine, api: str, run: str, folder: Path) -> None:
    """What the provision step does, for two shards."""
    with open_runners(REPOSITORY, TOKEN, api=api, pause_s=0, wait=lambda _: None) as runners:
        provision_all(
            engine,
            Run(engine.name, REPOSITORY, run, 1),
            DEMANDS,
            budget_usd=BUDGET,
            registry=runners,
            leases=folder / "leases.jsonl",
        )


class Provisioner:
    """Forks a child for each order, which runs `provision_once` and ends where the order says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, run: str, kind: str = "", at: int = 0, how: How = "killed") -> dict[str, int]:
        """kind: `line`, `aws` or `rest`, of which the at-th is the last; answers how often each was passed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"run": run, "kind": kind, "at": at, "how": how}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, int] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def provisioner(cloud: Cloud, hub: Service, **changes: Any) -> Iterator[Provisioner]:
    """Of machines of EC2."""
    options = options_for(cloud, **changes).model_dump(mode="json")
    with _started({"engine": "ec2", "options": options, "api": hub.api}, cloud.environment) as started:
        yield started


@contextmanager
def sky_provisioner(pilot: Pilot, hub: Service) -> Iterator[Provisioner]:
    """Of clusters of SkyPilot."""
    options = sky_options().model_dump(mode="json")
    with _started({"engine": "sky", "options": options, "api": hub.api}, pilot.environment) as started:
        yield started


@contextmanager
def _started(facts: dict[str, Any], environment: dict[str, str]) -> Iterator[Provisioner]:
    command = [sys.executable, "-m", "tests.helpers.machines", json.dumps(facts)]
    whole = {**os.environ, **environment, "PYTHONPATH": str(_ROOT)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=whole, cwd=_ROOT
    ) as process:
        yield Provisioner(process)
        assert process.stdin is not None
        process.stdin.close()


def _engine(facts: dict[str, Any]) -> Engine:
    if facts["engine"] == "sky":
        return SkyEngine(SkyOptions.model_validate(facts["options"]), server_of())
    return Ec2Engine(Ec2Options.model_validate(facts["options"]))


class _Trap:
    """Counts what is passed, and ends the process at the place that was ordered."""

    def __init__(self, kind: str, at: int, how: str, told: Path) -> None:
        self.kind, self.at, self.how, self.told = kind, at, how, told
        self.counts = {"line": 0, "aws": 0, "rest": 0}
        self._lines: set[tuple[str, int]] = set()

    def passed(self, kind: str) -> None:
        self.counts[kind] += 1
        if kind == self.kind and self.counts[kind] == self.at:
            self.at = -1
            if self.how == "cancelled":
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGKILL)

    def call(self, frame: FrameType, event: str, _: Any) -> Any:
        return self.line if frame.f_code.co_filename.startswith(_WATCHED) else None

    def line(self, frame: FrameType, event: str, _: Any) -> Any:
        place = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and place not in self._lines:
            self._lines.add(place)
            self.passed("line")
        return self.line

    def arm(self) -> None:
        """Before and after every request, and at every line that is reached for the first time."""
        import requests
        from botocore.httpsession import URLLib3Session

        self._around(URLLib3Session, "aws")
        self._around(requests.Session, "rest")
        if self.kind in ("", "line"):
            sys.settrace(self.call)

    def _around(self, session: Any, kind: str) -> None:
        send = session.send

        def counted(sender: Any, *arguments: Any, **named: Any) -> Any:
            self.passed(kind)
            answer = send(sender, *arguments, **named)
            self.passed(kind)
            return answer

        session.send = counted


def _child(order: dict[str, Any], facts: dict[str, Any], told: Path) -> None:
    trap = _Trap(order["kind"], order["at"], order["how"], told)
    trap.arm()
    try:
        provision_once(_engine(facts), facts["api"], order["run"], told.parent)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    told.write_text(json.dumps(trap.counts))


def _serve(facts: dict[str, Any]) -> None:
    # What is imported lazily is imported now, so that a child takes milliseconds.
    import github  # noqa: F401

    if facts["engine"] == "ec2":
        import boto3

        boto3.client("ec2", region_name="us-east-1")
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "told"
            child = os.fork()
            if child == 0:
                try:
                    _child(json.loads(line), facts, told)
                except BaseException as error:
                    print(f"child: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            print(told.read_text() if told.exists() else "{}", flush=True)


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
