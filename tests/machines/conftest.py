"""Jobs of AWS Batch as real containers: the image of `scripts/machine_image`, and a stack on moto that starts it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from bench.base.files import lock
from tests.helpers.aws_batch import REGION, SECRETS, Stack, as_containers, make_stack
from tests.helpers.cells import not_here
from tests.workflows.rehearsal.stage import HERE, ROOT

_RUN = "#!/bin/sh\nexec python -P actions_runner.py\n"


@pytest.fixture(scope="session")
def machine_image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The content id of the image of jobs in both modes; MLDB_MACHINE_IMAGE names one that is there already."""
    if named := os.environ.get("MLDB_MACHINE_IMAGE"):
        shown = ["docker", "image", "inspect", "--format", "{{.Id}}", named]
        return subprocess.run(shown, capture_output=True, text=True, check=True).stdout.strip()
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        not_here("jobs as containers need a Docker engine")
    # Several workers of pytest want it, and one builds it.
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own
    with lock(shared / "machine-image.lock"):
        told = shared / "machine-image"
        if not told.exists():
            told.write_text(_build(tmp_path_factory.mktemp("runner")), encoding="utf-8")
        return told.read_text(encoding="utf-8")


def _build(folder: Path) -> str:
    archive = _runner_archive(folder)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    program = str(Path(sys.executable).with_name("ml-dev-bench"))
    command = [str(ROOT / "scripts" / "machine_image"), program, "mldb-machine:test", str(archive), digest]
    env = {**os.environ, "MLDB_EXTRAS": "aws"}
    built = subprocess.run(command, capture_output=True, text=True, env=env, timeout=2400, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    return built.stdout.split()[-1]


def _runner_archive(folder: Path) -> Path:
    """What stands in for the archive of GitHub's runner."""
    (folder / "run.sh").write_text(_RUN, encoding="utf-8")
    (folder / "run.sh").chmod(0o755)
    path = folder / "actions-runner.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder / "run.sh", "run.sh")
        archive.add(HERE / "actions_runner.py", "actions_runner.py")
    return path


@pytest.fixture
def batch_stack(machine_image: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Stack]]:
    """Makes the stack for a mode; its jobs are containers on this machine."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    role = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    # moto keeps what an earlier server was told.
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST")).close()
    for name, value in {"AWS_ENDPOINT_URL": endpoint, **role}.items():
        monkeypatch.setenv(name, value)

    def reach_moto(resources: dict[str, Any]) -> None:
        container = resources["Definition"]["ContainerProperties"]
        container["Environment"] = [{"Name": "AWS_ENDPOINT_URL", "Value": endpoint}]
        container["Image"] = f"registry.invalid/mldb@{machine_image}"

    def make(mode: str) -> Stack:
        if mode == "runner":
            # Its jobs have no role.
            as_containers(monkeypatch, {})
            return make_stack(change=reach_moto, Mode="runner")
        secrets = boto3.client("secretsmanager", region_name=REGION)
        arns = {name: secrets.create_secret(Name=name, SecretString=value)["ARN"] for name, value in SECRETS.items()}
        as_containers(monkeypatch, role)
        return make_stack(change=reach_moto, Mode="shard", ModelKey=arns["key"], SeedSecret=arns["seed"])

    try:
        yield make
    finally:
        server.stop()
