"""The verbs of `ml-dev-bench action` that a job of AWS Batch runs, and the fetching of what such jobs have left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import Field

from bench.base.errors import EXIT_FAILED, EXIT_USAGE, UserError
from bench.base.model import Model
from bench.cli.action_inputs import annotated, nothing_left, read_inputs, runner_variable

if TYPE_CHECKING:
    from bench.formats.plan import PlanFile
    from bench.machines import BatchJob, Scope, ShardBatchEngine, Work

_LEAVE_S = 120
"""Before the lease ends: for cells to stop, and for the bundle to be written."""
_IDLE_S = 1200
"""For which a runner waits for its job."""
_END_S = 30
_POLL_S = 5
_MOST_BUNDLE = 1 << 30
_FOREIGN = ("GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN")
_METADATA = ("169.254.169.254", 80)
_RUNNER = Path("/opt/runner")
_CONFIGURATION = "MLDB_RUNNER_CONFIGURATION"


class _ShardJob(Model):
    prefix: str = Field(pattern=r"^s3://")
    inputs_digest: str = Field(alias="inputs-digest")
    shard: str
    expires: int
    region: str
    sandbox: str = "auto"


class _RunnerJob(Model):
    expires: int


@click.command("shard-job")
@annotated
def shard_job() -> None:
    """Run one shard of a plan that lies in S3, without GitHub, and leave the bundle there, however it ends."""
    from bench.machines import ShardPlace, aws_client, aws_errors, pack_bundle, unpack_inputs

    told = read_inputs(_ShardJob)
    _refuse_credentials(os.environ)
    _refuse_metadata(_METADATA)
    work = Path.cwd()
    place = ShardPlace(aws_client("s3", told.region), told.prefix)
    with aws_errors("inputs"):
        unpack_inputs(place.fetch_inputs(told.prefix, told.inputs_digest), work / "inputs")
    # What is started from here on inherits no way to the role.
    for name in [name for name in os.environ if name.startswith(("AWS_", "ECS_"))]:
        del os.environ[name]
    records = work / "records"
    status = EXIT_FAILED
    try:
        with _ended_before(told.expires), nothing_left():
            status = _run_shard(work / "inputs", told, records)
    finally:
        bundle = pack_bundle(records)
        with aws_errors("bundle"):
            place.put_bundle(told.prefix, bundle)
        click.echo(f"bundle: {len(bundle)} bytes in {told.prefix.rpartition('-')[0]}-...", err=True)
    sys.exit(status)


def _run_shard(inputs: Path, told: _ShardJob, records: Path) -> int:
    from bench.cli.run_shard import run_shard
    from bench.machines import PLAN, REPOSITORY

    # Agents of the repository are named as seen from its root.
    os.chdir(inputs / REPOSITORY)
    words = ["--out", str(records), "--sandbox", told.sandbox, "--", str(inputs / PLAN), told.shard]
    try:
        run_shard.main(words, standalone_mode=False)
    except UserError as error:
        click.echo(f"error: {error}", err=True)
        return EXIT_USAGE
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else EXIT_FAILED
    except (KeyboardInterrupt, click.Abort):
        return EXIT_FAILED
    return 0


@contextmanager
def _ended_before(expires: int) -> Iterator[None]:
    """A context that is interrupted some time before the lease ends; raises `UserError` when that has passed."""
    left = expires - time.time() - _LEAVE_S
    if left <= 0:
        raise UserError("its lease has ended while the job waited", where="shard-job", remedy="use missing-from")
    timer = threading.Timer(left, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _refuse_credentials(environment: Mapping[str, str]) -> None:
    found = [name for name in _FOREIGN if environment.get(name)]
    if found:
        remedy = "take it out of the job definition"
        raise UserError("a shard runs without any credential of GitHub", where=found[0], remedy=remedy)


def _refuse_metadata(address: tuple[str, int]) -> None:
    """Raise `UserError` where the metadata service, which hands out the role of the machine, answers a container."""
    import http.client

    connection = http.client.HTTPConnection(*address, timeout=2)
    try:
        connection.request("PUT", "/latest/api/token", headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"})
        status = connection.getresponse().status
    except OSError:
        return
    finally:
        connection.close()
    if status == 200:
        raise UserError(
            "the metadata service gives tokens to this job, and would to what breaks out of a sandbox",
            where="shard-job",
            remedy="start the machines from a launch template with a hop limit of 1, as docs/machines-batch.md says",
        )


@click.command("runner-job")
@annotated
def runner_job() -> None:
    """Be the self-hosted runner of one job, and end with it: at the end of the lease, or when no job comes."""
    configuration = os.environ.pop(_CONFIGURATION, "")
    told = read_inputs(_RunnerJob)
    if not configuration:
        raise UserError("is not set", where=_CONFIGURATION, remedy="let provision start this job")
    _refuse_metadata(_METADATA)
    folder = Path(os.environ.get("MLDB_RUNNER_FOLDER") or _RUNNER)
    sys.exit(run_runner(folder, configuration, told.expires))


def run_runner(folder: Path, configuration: str, expires: float, idle_s: float = _IDLE_S, poll_s: float = 2) -> int:
    """Run the runner in `folder` until it ends or has to; its exit status, 1 where it was ended."""
    # The runner takes its options from such variables and removes them: a command line is there for all to read.
    hidden = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ECS_"))}
    env = {**hidden, "RUNNER_ALLOW_RUNASROOT": "1", "ACTIONS_RUNNER_INPUT_JITCONFIG": configuration}
    runner = subprocess.Popen([str(folder / "run.sh")], cwd=folder, env=env, start_new_session=True)
    began = time.time()
    why = ""
    with _forwarded(runner):
        while runner.poll() is None and not why:
            if time.time() >= expires:
                why = "its lease has ended"
            elif time.time() - began > idle_s and not any((folder / "_diag").glob("Worker_*")):
                why = f"no job came in {idle_s:.0f} s"
            time.sleep(poll_s)
        if not why:
            return runner.returncode
        click.echo(f"the runner is ended: {why}", err=True)
        _end(runner)
    return EXIT_FAILED


@contextmanager
def _forwarded(runner: subprocess.Popen[bytes]) -> Iterator[None]:
    """The runner gets the request to end that Batch sends to this process, and reports the job as cancelled."""
    earlier = signal.signal(signal.SIGTERM, lambda number, frame: os.killpg(runner.pid, signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


def _end(runner: subprocess.Popen[bytes]) -> None:
    os.killpg(runner.pid, signal.SIGINT)
    try:
        runner.wait(_END_S)
    except subprocess.TimeoutExpired:
        os.killpg(runner.pid, signal.SIGKILL)
        runner.wait()


def work_of(document: PlanFile, plan: Path) -> Work:
    """What machines are made for that run the shards of the plan at `plan`."""
    from bench.formats.agent import load_agent
    from bench.machines import Work, pack_inputs

    strangers = sorted({cell.agent for run in document.runs for cell in run.cells if "/" in cell.agent})
    workspace = Path(os.environ.get("GITHUB_WORKSPACE") or ".").resolve()

    def inputs() -> bytes:
        return pack_inputs(plan.read_bytes(), [load_agent(workspace / path) for path in strangers], workspace)

    return Work(inputs, strangers)


def fetch_bundles(
    engine: ShardBatchEngine, scope: Scope, place: Callable[[str], Path], wait_s: float, poll_s: float = _POLL_S
) -> list[str]:
    """Wait for the jobs of the scope, and unpack what each has left; a line for each that left nothing.

    place: the folder of a shard's artifact. Raises `UserError` where jobs have not ended, or AWS does not answer.
    """
    until = time.monotonic() + wait_s
    jobs = engine.jobs(scope)
    while running := [job for job in jobs if job.state != "ended"]:
        if time.monotonic() >= until:
            fault = f"{len(running)} of {len(jobs)} jobs have not ended after {wait_s / 60:.0f} minutes"
            remedy = f"nothing is stored yet: collect again later, with of-run {scope.run}"
            raise UserError(fault, where="collect", remedy=remedy)
        click.echo(f"waiting for {len(running)} of {len(jobs)} jobs", err=True)
        time.sleep(poll_s)
        jobs = engine.jobs(scope)
    # Of several attempts the last: an earlier one was given up.
    jobs = sorted(jobs, key=lambda job: job.lease.attempt, reverse=True)
    return [line for job in jobs if (line := _fetch(engine, job, place(job.lease.shard)))]


def _fetch(engine: ShardBatchEngine, job: BatchJob, folder: Path) -> str:
    from bench.store import Caps, unpack_artifact

    name = f"shard {job.lease.shard}"
    if folder.exists():
        return f"{name}: a second bundle was not needed"
    bundle = engine.fetch_bundle(job, _MOST_BUNDLE)
    if bundle is None:
        return f"{name} has left no bundle: {job.reason or 'Batch does not say why'}"
    try:
        unpack_artifact(bundle, folder, Caps(records_bytes=_MOST_BUNDLE))
    except UserError as error:
        return f"{name}: {error}"
    return ""


def fetch_from_machines(machines: Path, run: str, place: Callable[[str], Path], wait_s: float) -> list[str]:
    """Lay out what the jobs of this workflow run have left as actions/download-artifact would."""
    from bench.machines import Scope, ShardBatchEngine, Work, open_engine, read_settings

    engine = open_engine("batch", read_settings(machines), Work(), machines)
    if not isinstance(engine, ShardBatchEngine):
        remedy = "leave `machines` out of collect: the jobs of the matrix upload artifacts"
        raise UserError("mode runner has no bundles", where=machines, remedy=remedy)
    scope = Scope(runner_variable("GITHUB_REPOSITORY"), run)
    return fetch_bundles(engine, scope, place, wait_s)
