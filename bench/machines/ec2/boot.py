"""What a machine does from its first second on: cloud-init user data in two parts.

The first part arms the power-off at the end of the lease and does nothing else. The second arms it again, arms the idle
timer, starts the runner, and powers the machine off when it ends, however it does.
"""

from __future__ import annotations

import re
from datetime import datetime
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path

from bench.base.errors import UserError
from bench.machines.ec2.options import Ec2Options
from bench.machines.lease import Lease

MOST_BYTES = 16_384
"""Of user data, before its encoding for the request: a limit of EC2's."""
_CONFIGURATION = re.compile(r"[A-Za-z0-9+/=_-]+")
_PARTS = (("first.sh", "cloud-boothook"), ("second.sh", "x-shellscript"))


def user_data(lease: Lease, options: Ec2Options, configuration: str, now: datetime, *, spot: bool) -> str:
    """The user data of a machine; raises `UserError` where EC2 would refuse it."""
    if not _CONFIGURATION.fullmatch(configuration):
        raise UserError("the runner's configuration is not base 64", where="GitHub")
    values = {
        "EXPIRES": str(int(lease.expires.timestamp())),
        "SECONDS": str(max(60, int((lease.expires - now).total_seconds()))),
        "IDLE_SECONDS": str(options.idle_minutes * 60),
        "USER": options.runner_user,
        "FOLDER": options.runner_folder,
        "SPOT": "yes" if spot else "no",
        "CONFIGURATION": configuration,
    }
    whole = MIMEMultipart(boundary="==mldb==")
    for name, kind in _PARTS:
        text = Path(__file__).with_name(name).read_text(encoding="utf-8")
        part = MIMEText(re.sub("@([A-Z_]+)@", lambda match: values[match[1]], text), kind, "us-ascii")
        part.add_header("Content-Disposition", "attachment", filename=f"mldb-{name}")
        whole.attach(part)
    data = whole.as_string()
    if len(data.encode()) > MOST_BYTES:
        raise UserError(
            f"user data has {len(data.encode())} bytes, and EC2 takes {MOST_BYTES}",
            where=f"shard {lease.shard}",
            remedy="GitHub's configuration of the runner is longer than usual: report it",
        )
    return data
