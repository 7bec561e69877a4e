"""What a machine of EC2 does from its first second on: the scripts of every engine, as user data of cloud-init."""

from __future__ import annotations

from datetime import datetime
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

from bench.base.errors import UserError
from bench.machines.boot import boot_scripts
from bench.machines.ec2.options import Ec2Options
from bench.machines.lease import Lease

MOST_BYTES = 16_384
"""Of user data, before its encoding for the request: a limit of EC2's."""
_PARTS = (("first.sh", "cloud-boothook"), ("second.sh", "x-shellscript"))


def user_data(lease: Lease, options: Ec2Options, configuration: str, now: datetime, *, spot: bool) -> str:
    """The user data of a machine; raises `UserError` where EC2 would refuse it."""
    whole = MIMEMultipart(boundary="==mldb==")
    for (name, kind), text in zip(_PARTS, boot_scripts(lease, options, configuration, now, spot=spot), strict=True):
        part = MIMEText(text, kind, "us-ascii")
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
