"""A machine of EC2 that really starts: a process of the test boots it from what the cloud keeps of the request.

Namespaces of its own (processes, mounts) make it a machine that can be taken away as a whole. Both parts of its user
data run as cloud-init would run them; stand-ins write down what would end this machine or change its firewall, and take
the place of the metadata service and of the runner's account. /mnt is the machine's own disk.
"""

from __future__ import annotations

import base64
import contextlib
import email
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import boto3

from tests.workflows.rehearsal.stage import HERE, ROOT

RUNNER_FOLDER = "/mnt/actions-runner"
_LEAST_PAID_S = 60
_STANDINS = {
    "shutdown": 'case "$2" in now) : >/mnt/off ;; esac',
    "systemctl": "",
    "systemd-run": "",
    "iptables": "",
    "install": "mkdir -p /run/mldb /run/mldb-hooks",
    "id": "echo 1000",
    # The metadata service tells of a spot machine that is taken back.
    "curl": "[ -e /mnt/notice ] && echo token",
    # -TERM -o -u USER -f PATTERN, and -u USER -- COMMAND: here all belongs to the account of the test.
    "pkill": 'exec /usr/bin/pkill "$1" "$2" "$5" "$6"',
    "runuser": 'shift 3; exec "$@"',
    # From one look at the metadata service to the next, and from the orderly end to the forced one.
    "sleep": 'case "$1" in 5) exec /usr/bin/sleep 0.2 ;; 60) ;; *) exec /usr/bin/sleep "$@" ;; esac',
}
_START = """
mount -t tmpfs none /run && mount -t tmpfs none /var/lib && mount --bind {folder} /mnt || exit 9
export PATH=/mnt/bin:/usr/sbin:/usr/bin:/sbin:/bin
/bin/sh /mnt/cloud-boothook
/bin/bash /mnt/x-shellscript
"""
_RUN = """#!/bin/sh
# GitHub's archive starts its runner so.
export PATH=/usr/local/bin:/usr/bin:/bin PYTHONPATH={root} LITELLM_LOCAL_MODEL_COST_MAP=True
exec {python} -P {runner}
"""


class Instance:
    """One machine that the cloud has made, from its start to its end."""

    def __init__(self, region: str, name: str, folder: Path) -> None:
        """name: its id; folder: of the test, for its disk."""
        self._ec2 = boto3.client("ec2", region_name=region)
        self.name = name
        self.folder = folder
        (facts,) = self._ec2.describe_instances(InstanceIds=[name])["Reservations"][0]["Instances"]
        self.tags = {tag["Key"]: tag["Value"] for tag in facts["Tags"]}
        self.kind: str = facts["InstanceType"]
        self.is_spot = facts.get("InstanceLifecycle") == "spot"
        self.started: datetime = facts["LaunchTime"]
        self.ended: datetime | None = None
        self._process = self._boot()

    @property
    def log(self) -> list[str]:
        """What the stand-ins were called with."""
        return (self.folder / "log").read_text(encoding="utf-8").splitlines()

    @property
    def said(self) -> str:
        """Its console."""
        return (self.folder / "console").read_text(encoding="utf-8", errors="replace")

    @property
    def stored(self) -> int:
        """Records that its runner has written so far."""
        return len(list(self.folder.glob("actions-runner/_work/temp/ml-dev-bench/shards/*/*/cells/*.json")))

    @property
    def armed_hours(self) -> float:
        """For which it lives at most, by the timer that is armed before anything else."""
        armed = re.fullmatch(r"shutdown -P \+(\d+)", self.log[0])
        assert armed is not None, self.log
        return int(armed[1]) / 60

    def notify(self) -> None:
        """Two minutes before it is taken back."""
        (self.folder / "notice").touch()

    def lose(self) -> None:
        """Taken back, with all that runs on it."""
        self._end()

    def is_over(self) -> bool:
        """Whether it has ended itself, or was taken back; EC2 then does what the request says of its end."""
        if self.ended is None and (self._process.poll() is not None or (self.folder / "off").exists()):
            self._end()
        return self.ended is not None

    def paid_usd(self, usd_per_hour: float) -> float:
        """What EC2 takes for it: by the second, and for a minute at least."""
        assert self.ended is not None
        return max(_LEAST_PAID_S, (self.ended - self.started).total_seconds()) / 3600 * usd_per_hour

    def _boot(self) -> subprocess.Popen[bytes]:
        data = self._ec2.describe_instance_attribute(InstanceId=self.name, Attribute="userData")["UserData"]["Value"]
        (self.folder / "bin").mkdir(parents=True)
        for part in email.message_from_bytes(base64.b64decode(data)).walk():
            if not part.is_multipart():
                (self.folder / part.get_content_subtype()).write_text(str(part.get_payload()), encoding="utf-8")
        for name, body in _STANDINS.items():
            # The log has a line for each call, and `id` is asked for too often.
            note = "" if name == "id" else f'echo "{name} $*" >>/mnt/log'
            (self.folder / "bin" / name).write_text(f"#!/bin/sh\n{note}\n{body}\n", encoding="utf-8")
        run = self.folder / "actions-runner" / "run.sh"
        run.parent.mkdir()
        runner = shlex.quote(str(HERE / "actions_runner.py"))
        run.write_text(_RUN.format(root=shlex.quote(str(ROOT)), python=shlex.quote(sys.executable), runner=runner))
        for path in (run, *(self.folder / "bin").iterdir()):
            path.chmod(0o755)
        apart = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
        as_root = [] if os.getuid() == 0 else ["--map-root-user"]
        start = _START.format(folder=shlex.quote(str(self.folder)))
        with (self.folder / "console").open("wb") as console:
            # Nothing of this process's environment: above all no credential of the cloud.
            return subprocess.Popen(
                [*apart, *as_root, "/bin/sh", "-c", start],
                env={"HOME": "/root"},
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
            )

    def _end(self) -> None:
        if self.ended is None:
            self.ended = datetime.now(UTC)
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            attribute = self._ec2.describe_instance_attribute(
                InstanceId=self.name, Attribute="instanceInitiatedShutdownBehavior"
            )
            # The default is to stop, which keeps what costs.
            assert attribute["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"
            self._ec2.terminate_instances(InstanceIds=[self.name])


def until_over(instances: list[Instance]) -> None:
    """All have ended; the suite's own time limit ends the wait for one that does not."""
    while [it for it in instances if not it.is_over()]:
        time.sleep(0.1)
