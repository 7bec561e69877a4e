"""Clusters of SkyPilot: one request with everything that is the cluster's own, within a price, and no more rights."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import UserError
from bench.machines import (
    Demand,
    Found,
    Lease,
    Machine,
    OutOfCapacity,
    Run,
    Scope,
    SkyEngine,
    Work,
    open_engine,
    provision_all,
)
from bench.machines.settings import MachineSettings
from bench.machines.sky.server import ENDPOINT, SkyError, SkyServer, server_of
from bench.machines.sky.task import EARLY, cluster_of, labels_of, lease_in, question, task_for
from tests.helpers.machines import DEMANDS, REPOSITORY, later, sky_options
from tests.helpers.skypilot import PROTOCOL, TOKEN, Pilot, skypilot

ROOT = Path(__file__).parents[2]
SECRET = "QUJDsecretofonerunner"
_ANSWERS = {"/status", "/down", "/optimize", "/launch", "/api/cancel", "/api/get", "/api/status", "/api/health"}


@dataclass(frozen=True)
class Configured:
    id: int = 1
    name: str = "runner"
    configuration: str = SECRET


class Registry:
    """Nothing but configurations."""

    def __init__(self) -> None:
        self.removed: list[int] = []

    def register(self, name: Any, label: str) -> Configured:
        return Configured(name=name())

    def records(self) -> list[Any]:
        return []

    def remove(self, record: int) -> None:
        raise AssertionError("there is none")

    def has_ended(self, run: str, attempt: int) -> bool:
        return False


@pytest.fixture(scope="module")
def shared() -> Iterator[Pilot]:
    with skypilot() as made:
        yield made


@pytest.fixture
def pilot(shared: Pilot) -> Pilot:
    """With nothing in it, and nothing wrong."""
    for told in (shared.clusters, shared.requests, shared.asked, shared.broken, shared.stuck, shared.gone):
        told.clear()
    shared.hold, shared.price, shared.full, shared.arms = "", 0.9, False, True
    shared.api_version = PROTOCOL["api_version"]
    return shared


def engine_for(pilot: Pilot, strangers: tuple[str, ...] = (), **changes: Any) -> SkyEngine:
    server = SkyServer(pilot.address, TOKEN, wait=lambda _: None)
    return SkyEngine(sky_options(**changes), server, strangers)


def lease(shard: str = "box-001", repository: str = REPOSITORY) -> Lease:
    return Lease("sky", repository, "7", 1, shard, later(hours=2)())


def provision(pilot: Pilot, tmp_path: Path, **changes: Any) -> list[Machine]:
    run = Run("sky", REPOSITORY, "7", 1)
    leases = tmp_path / "leases"
    return provision_all(engine_for(pilot, **changes), run, DEMANDS, budget_usd=100, registry=Registry(), leases=leases)


def launched(pilot: Pilot) -> dict[str, Any]:
    (body,) = [body for path, body in pilot.asked if path == "/launch"]
    task: dict[str, Any] = json.loads(body["task"])
    return {**task, "cluster": body["cluster_name"]}


def test_one_request_says_everything(pilot: Pilot) -> None:
    held = lease()
    engine = engine_for(pilot)
    made = engine.launch(held, DEMANDS[0], Configured())
    engine.settle([made])
    asked = launched(pilot)
    resources = asked["resources"]
    assert asked["cluster"] == made.id == f"mldb-{held.id}" and len(made.id) <= 35, "the shortest limit of a cloud"
    assert resources["autostop"] == {"idle_minutes": 5, "down": True, "wait_for": "jobs"}
    assert resources["max_hourly_cost"] == 1.0 and (resources["cpus"], resources["memory"]) == ("4+", "16+")
    assert resources["ordered"] == [{"infra": place, "use_spot": False} for place in ("gcp/us-central1", "k8s/lab")]
    assert {key: resources["labels"][key] for key in ("mldb-run", "mldb-attempt", "mldb-shard", "mldb-lease")} == {
        "mldb-run": "7",
        "mldb-attempt": "1",
        "mldb-shard": "box-001",
        "mldb-lease": held.id,
    }
    assert resources["labels"]["mldb-expires"] == str(int(held.expires.timestamp()))
    assert all(re.fullmatch(r"[a-z0-9_-]{1,63}", value) for value in resources["labels"].values())
    spec = asked["config"]["kubernetes"]["pod_config"]["spec"]
    assert 7000 < spec["activeDeadlineSeconds"] <= 7200 and spec["containers"][0]["securityContext"]["privileged"]
    (cluster,) = pilot.clusters.values()
    assert cluster["to_down"] and cluster["autostop"] == 5 and cluster["labels"] == resources["labels"]


def test_the_power_off_is_armed_before_the_runner_and_no_script_holds_its_configuration(pilot: Pilot) -> None:
    engine_for(pilot).launch(lease(), DEMANDS[0], Configured())
    asked = launched(pilot)
    assert asked["secrets"] == {"MLDB_RUNNER_CONFIGURATION": SECRET}
    commands = asked["run"].splitlines()
    scripts = [base64.b64decode(text).decode() for text in re.findall(r"echo (\S+) \| base64", asked["run"])]
    assert scripts[0].startswith("#!/bin/sh") and "shutdown -P" in scripts[0]
    assert scripts[1].startswith("#!/bin/bash") and 'JITCONFIG="$MLDB_RUNNER_CONFIGURATION"' in scripts[1]
    assert [it.split()[-1] for it in commands[-2:]] == ["/run/mldb-boot/first.sh", "/run/mldb-boot/second.sh"]
    assert SECRET not in asked["run"] + "".join(scripts) and "@" not in "".join(scripts)
    assert f"left - {int(EARLY.total_seconds())}" in scripts[1]


def test_the_same_lease_twice_is_one_cluster(pilot: Pilot) -> None:
    first = engine_for(pilot).launch(lease(), DEMANDS[0], Configured())
    pilot.settle()
    again = engine_for(pilot).launch(lease(), DEMANDS[0], Configured(configuration="b3RoZXI="))
    assert again.id == first.id and len(pilot.clusters) == 1
    launched(pilot)


def test_a_cluster_of_others_with_our_name_is_left_alone(pilot: Pilot) -> None:
    held = lease()
    pilot.add(cluster_of(held), {"mldb-lease": held.id})
    with pytest.raises(UserError, match="of others exists"):
        engine_for(pilot).launch(held, DEMANDS[0], Configured())
    released = engine_for(pilot).release([Machine(cluster_of(held), held, "running")])
    assert released.faults == [f"cluster {cluster_of(held)}: it belongs to others"] and pilot.clusters


def test_a_price_above_the_limit_is_refused_before_anything_is_made(pilot: Pilot, tmp_path: Path) -> None:
    pilot.price = 1.01
    with pytest.raises(OutOfCapacity, match=r"class box: SkyPilot has no such machine at 1 USD an hour"):
        provision(pilot, tmp_path)
    pilot.price = 0.5
    (quote, _) = engine_for(pilot).quote(DEMANDS)
    assert (quote.usd_per_hour, quote.hours) == (1.0, 2.75), "the most it may cost, for as long as the lease is"
    run = Run("sky", REPOSITORY, "7", 1)
    with pytest.raises(UserError, match=r"can cost up to 5.50 USD, and the budget is 5.00 USD"):
        provision_all(engine_for(pilot), run, DEMANDS, budget_usd=5, registry=Registry(), leases=tmp_path / "leases")
    assert not [path for path, _ in pilot.asked if path == "/launch"] and not (tmp_path / "leases").exists()


@pytest.mark.parametrize("spot", ["never", "prefer", "only"])
def test_markets_are_tried_in_the_order_that_the_file_says(spot: str) -> None:
    options = sky_options(spot=spot)
    asked = json.loads(question(DEMANDS[0], options, options.machines["box"]))["resources"]["ordered"]
    markets = {"never": [False], "prefer": [True, False], "only": [True]}[spot]
    assert [it["use_spot"] for it in asked] == [market for market in markets for _ in range(2)]


def test_agents_of_strangers_need_machines_that_can_end_nothing_but_themselves(pilot: Pilot) -> None:
    stranger = ("./agent.yaml",)
    with pytest.raises(UserError, match=r"\./agent\.yaml is not an agent of the benchmark.*`identity: itself`"):
        engine_for(pilot, stranger).quote(DEMANDS)
    assert not pilot.asked
    assert engine_for(pilot, stranger, identity="itself").quote(DEMANDS)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("", "a server of SkyPilot that outlives this job"),
        ("sky.example.org", "is not an address"),
        ("http://sky.example.org", "is not https"),
    ],
)
def test_without_a_server_that_stays_nothing_is_asked(given: str, fault: str) -> None:
    with pytest.raises(UserError, match=f"{ENDPOINT}: .*{fault}"):
        server_of({ENDPOINT: given})


def test_the_token_is_taken_out_of_the_environment_and_no_message_has_a_password(
    pilot: Pilot, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {ENDPOINT: pilot.address, "SKYPILOT_SERVICE_ACCOUNT_TOKEN": TOKEN}
    server_of(environment)
    assert environment == {ENDPOINT: pilot.address}
    monkeypatch.setenv(ENDPOINT, pilot.address)
    settings = MachineSettings(sky=sky_options())
    assert open_engine("sky", settings, Work(), "machines.yaml").name == "sky"
    server = SkyServer("http://me:hidden@127.0.0.1:9", wait=lambda _: None)
    with pytest.raises(UserError, match=r"http://127.0.0.1:9: cannot be reached: ConnectionError") as caught:
        server.clusters()
    assert "hidden" not in str(caught.value)


def test_find_shows_what_is_ours_and_what_waits(pilot: Pilot) -> None:
    engine = engine_for(pilot)
    pilot.hold = "waiting"
    engine.launch(lease("box-001"), DEMANDS[0], Configured())
    pilot.settle()
    pilot.hold = ""
    pilot.add(cluster_of(lease("box-002")), labels_of(lease("box-002")), launched_at=1_700_000_000)
    pilot.add(cluster_of(lease("box-003")), labels_of(lease("box-003")), status="STOPPED")
    pilot.add(cluster_of(lease("box-004")), labels_of(lease("box-004")), status="AUTOSTOPPING")
    pilot.add("theirs", labels_of(lease("box-001", "owner/others")))
    pilot.add(cluster_of(lease("box-005")), labels_of(lease("box-005")))
    pilot.gone.add(cluster_of(lease("box-005")))
    found = {it.lease.shard: it for it in engine.find(Scope(REPOSITORY)).machines}
    assert {shard: (it.kind, it.state) for shard, it in found.items()} == {
        "box-001": ("job", "pending"),
        "box-002": ("machine", "running"),
        "box-003": ("machine", "running"),
        "box-004": ("machine", "ending"),
    }
    assert found["box-002"].started is not None and found["box-002"].started.year == 2023
    assert {it.lease.repository for it in found.values()} == {REPOSITORY}
    assert not engine.find(Scope(REPOSITORY, "8")).machines
    late = SkyEngine(sky_options(), SkyServer(pilot.address, TOKEN), clock=later(hours=3))
    assert {it.state for it in late.find(Scope(REPOSITORY)).machines if it.lease.shard == "box-004"} == {"running"}
    pilot.resume()


@pytest.mark.parametrize("path", ["/api/status", "/status"])
def test_a_look_that_failed_is_not_an_absence(pilot: Pilot, path: str, tmp_path: Path) -> None:
    held = lease()
    pilot.add(cluster_of(held), labels_of(held))
    pilot.broken[path] = 500
    found = engine_for(pilot).find(Scope(REPOSITORY))
    assert not found.machines and f"answered 500 to {path}" in found.faults[0]
    with pytest.raises(UserError, match="machines may exist there"):
        provision(pilot, tmp_path)
    released = engine_for(pilot).release([Machine(cluster_of(held), held, "running")])
    assert not released.machines and released.faults and pilot.clusters
    report = engine_for(pilot).sweep(REPOSITORY, Registry(), pause_s=0)
    assert report.faults and not report.ended and pilot.clusters


def test_a_failed_question_to_the_clouds_leaves_what_the_server_remembers(pilot: Pilot) -> None:
    engine = engine_for(pilot)
    pilot.add(cluster_of(lease()), labels_of(lease()))
    remembered = engine._server.clusters()

    class Half(SkyServer):
        def clusters(self, names: Any = None, *, refresh: bool = False) -> Any:
            if refresh:
                raise UserError("the cloud did not answer", where="gcp")
            return remembered

    engine._server = Half(pilot.address, TOKEN)
    found = engine.find(Scope(REPOSITORY))
    assert [it.id for it in found.machines] == [cluster_of(lease())] and found.faults == [
        "gcp: the cloud did not answer"
    ]


def test_release_ends_the_rest_where_one_cannot_be_deleted_and_one_is_gone(pilot: Pilot) -> None:
    engine = engine_for(pilot)
    for number in (1, 2, 3):
        pilot.add(cluster_of(lease(f"box-00{number}")), labels_of(lease(f"box-00{number}")))
    pilot.stuck.add(cluster_of(lease("box-002")))
    machines = engine.find(Scope(REPOSITORY)).machines
    del pilot.clusters[cluster_of(lease("box-003"))]
    released = engine.release(machines)
    assert set(pilot.clusters) == pilot.stuck
    assert [it.lease.shard for it in released.machines] == ["box-001", "box-003"]
    assert len(released.faults) == 1 and "RuntimeError: Failed to terminate" in released.faults[0]
    assert engine.release([]).faults == []


def test_where_no_cloud_has_one_all_are_released(pilot: Pilot, tmp_path: Path) -> None:
    pilot.full = True
    with pytest.raises(OutOfCapacity, match="Failed to provision all possible launchable resources"):
        provision(pilot, tmp_path)
    assert not pilot.clusters


def test_a_cluster_that_would_not_delete_itself_is_released(pilot: Pilot, tmp_path: Path) -> None:
    pilot.arms = False
    with pytest.raises(UserError, match="shard box-001: its cluster would not be deleted after its job"):
        provision(pilot, tmp_path)
    assert not pilot.clusters
    pilot.arms = True
    assert len(provision(pilot, tmp_path)) == len(pilot.clusters) == 2


def test_an_older_server_is_refused(pilot: Pilot) -> None:
    pilot.api_version = 61
    with pytest.raises(UserError, match=r"speaks version 61 of the protocol, and 62 is needed.*SkyPilot 0\.14\.1"):
        engine_for(pilot).quote(DEMANDS)


@pytest.mark.parametrize(
    ("demand", "fault"),
    [
        (
            Demand("a-001", "other", 1, 1, 0, 1.0),
            r"'other' of the plan is not in `sky.machines`.*\(there are box\)",
        ),
        (Demand("a-001", "box", 1, 1, 2, 1.0), "promises 2 GPUs, and its `accelerators` are 1"),
        (Demand("a" * 64, "box", 1, 1, 1, 1.0), "is longer than 63"),
    ],
)
def test_what_cannot_be_asked_for_is_said(pilot: Pilot, demand: Demand, fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        engine_for(pilot).quote([demand])


def test_a_lease_is_read_out_of_labels_and_nothing_else() -> None:
    held = Lease("sky", "Owner/With.Dots_and-More", "7", 2, "box-001", later(hours=1)())
    labels = labels_of(held)
    found = lease_in(labels, Scope("owner/with.dots_and-more"))
    assert found is not None and (found.id, found.expires) == (held.id, held.expires)
    assert lease_in(labels, Scope("owner/other")) is None
    assert lease_in({**labels, "mldb-run": "8"}, Scope(held.repository)) is None
    assert lease_in({**labels, "mldb-engine": "ec2"}, Scope(held.repository)) is None
    assert lease_in(labels, Scope(held.repository, "7", 1)) is None


def test_other_shapes_and_refusals_are_one_line(pilot: Pilot) -> None:
    with pytest.raises(UserError, match=r"answered 401 to /status.*SKYPILOT_SERVICE_ACCOUNT_TOKEN"):
        SkyServer(pilot.address, "sky_wrong", wait=lambda _: None).clusters()
    pilot.broken["/launch"] = 503
    with pytest.raises(UserError, match="answered 503"):
        engine_for(pilot).launch(lease(), DEMANDS[0], Configured())
    assert len([path for path, _ in pilot.asked if path == "/launch"]) == 1, "a launch is sent once"
    assert set(PROTOCOL["paths"]) == _ANSWERS


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the real SkyPilot, in an environment of its own: 360 MB."""
    if ready := os.environ.get("MLDB_SKYPILOT"):
        return Path(ready)
    folder = tmp_path_factory.mktemp("skypilot")
    uv = Path(sys.executable).with_name("uv")
    for words in (["venv", "--quiet"], ["pip", "install", "--quiet", "--python", str(folder / "venv")]):
        last = [str(folder / "venv")] if words[0] == "venv" else [f"skypilot=={PROTOCOL['version']}"]
        subprocess.run([str(uv), *words, *last], check=True, timeout=900)
    return folder / "venv" / "bin" / "python"


def run_real(package: Path, home: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    script = [str(package), str(ROOT / "scripts" / "sky_protocol.py"), *words]
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    return subprocess.run(script, input=given, env=env, capture_output=True, text=True, timeout=400, check=False)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_real_package_says_what_the_stand_in_goes_by(package: Path, tmp_path: Path) -> None:
    assert run_real(package, tmp_path, "--check").returncode == 0


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_real_package_reads_out_of_a_task_what_was_meant(package: Path, tmp_path: Path) -> None:
    options = sky_options(spot="prefer")
    held = lease()
    task = task_for(held, DEMANDS[0], options, options.machines["box"], SECRET, later()())
    done = run_real(package, tmp_path, "--read", given=task)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout.splitlines()[-1])
    assert [(it["cloud"], it["use_spot"]) for it in read] == [
        ("GCP", True),
        ("Kubernetes", True),
        ("GCP", False),
        ("Kubernetes", False),
    ]
    for it in read:
        assert it["labels"] == labels_of(held) and it["labels_valid"]
        assert it["autostop"] == [True, 5, True] and it["max_hourly_cost"] == 1.0
        assert it["accelerators"] == {"L4": 1} and it["pod_config"]["spec"]["activeDeadlineSeconds"] > 7000


@pytest.fixture(scope="module")
def real(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SkyServer]:
    """A real API server, which has no cloud."""
    home = tmp_path_factory.mktemp("home")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(package), "-m", "sky.server.server", "--host", "127.0.0.1", "--port", str(port)]
    env = {"HOME": str(home), "PATH": f"{package.parent}:/usr/bin:/bin", "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, env=env, cwd=home, stdout=log, stderr=log, start_new_session=True)
        server = SkyServer(f"http://127.0.0.1:{port}")
        try:
            until = time.monotonic() + 500
            while True:
                try:
                    server.require_version()
                    break
                except UserError:
                    assert process.poll() is None and time.monotonic() < until, (home / "log").read_text()[-3000:]
            yield server
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_real_server_is_spoken_to(real: SkyServer) -> None:
    """It takes every request, and fails at the cloud that it does not have; nothing of ours is left there."""
    engine = SkyEngine(sky_options(), real)
    assert engine.find(Scope(REPOSITORY)) == Found([], [])
    with pytest.raises(SkyError, match="NoCloudAccessError") as caught:
        engine.quote(DEMANDS)
    assert "\n" not in str(caught.value)
    made = engine.launch(lease(), DEMANDS[0], Configured())
    with pytest.raises(UserError, match="shard box-001"):
        engine.settle([made])
    assert real.down([made.id], 60) == {}, "a cluster that does not exist is no fault"
    assert engine.release([made]).faults == [] and real.clusters([made.id], refresh=True) == []


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_real_server_tells_whose_a_launch_is_and_cancels_it(real: SkyServer) -> None:
    held = lease("box-009")
    engine = SkyEngine(sky_options(), real)
    made = engine.launch(held, DEMANDS[0], Configured())
    found = engine.find(Scope(REPOSITORY))
    # Where it has failed for want of a cloud before the look, there is nothing to find.
    assert [(it.id, it.kind, it.lease.shard) for it in found.machines] in ([], [(made.id, "job", "box-009")])
    assert engine.release(found.machines).faults == []
    assert engine.find(Scope(REPOSITORY)).machines == []
