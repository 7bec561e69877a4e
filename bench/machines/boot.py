"""What a machine does, whichever cloud it is of: power-off armed first, then the runner of one job, then the end.

`first.sh` arms the power-off at the end of the lease and does nothing else. `second.sh` arms it again, arms the idle
timer, starts the runner, and ends the machine when it ends, however it does.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field

from bench.base.errors import UserError
from bench.base.model import Model
from bench.machines.lease import Lease

CONFIGURATION = "MLDB_RUNNER_CONFIGURATION"
"""The variable that holds the runner's configuration, where it is not in the script itself."""
RUNNER_DAYS = 30
"""GitHub gives no jobs to a runner that has not been updated for so long after the next version."""
_CONFIGURATION = re.compile(r"[A-Za-z0-9+/=_-]+")
# The metadata service knows the configuration of the runner, and the credentials of the machine, if it has any. What
# deletes a cluster is not root and needs it, so there only the runner's account is kept from it.
_KEPT_FROM_METADATA = {"machine": "'!' --uid-owner 0", "cluster": "--uid-owner @USER@"}


class RunnerHost(Model):
    """What the image of a machine holds, and how long the machine waits for its job."""

    idle_minutes: int = Field(15, ge=5, le=120)
    """A machine without a job ends itself after so long."""
    runner_folder: str = Field("/opt/actions-runner", pattern=r"^/[A-Za-z0-9_./-]+$")
    """Of the image: where GitHub's runner lies unpacked."""
    runner_user: str = Field("runner", pattern=r"^[a-z_][a-z0-9_-]*$")
    """Of the image: an account without the right to become root."""
    runner_released: date | None = None
    """Of the image: the day on which the version of its runner was released. None: it is not checked."""


def check_runner_age(released: date | None, today: date, where: str) -> None:
    """Raise `UserError` where GitHub may refuse the runner in the image; where: the section of the machines file."""
    age = today - (released or today)
    if age > timedelta(days=RUNNER_DAYS):
        raise UserError(
            f"the runner in the image was released {age.days} days ago, and GitHub refuses old ones from "
            f"{RUNNER_DAYS} days on",
            where=where,
            remedy="build the image with the newest runner (docs/machines.md), and correct its name and "
            "`runner_released` in the machines file",
        )


def boot_scripts(
    lease: Lease,
    host: RunnerHost,
    configuration: str,
    now: datetime,
    *,
    spot: bool = False,
    ends: Literal["machine", "cluster"] = "machine",
    early_s: int = 0,
) -> tuple[str, str]:
    """Both parts, of which the second holds the configuration; raises `UserError` for one that is not base 64.

    spot: whether EC2's notices are watched for. ends: who deletes the machine once its runner has ended, the power-off
    or the cluster's own agent; for that one the runner is ended `early_s` seconds before the lease is, and the
    configuration comes in a variable.
    """
    if not _CONFIGURATION.fullmatch(configuration):
        raise UserError("the runner's configuration is not base 64", where="GitHub")
    values = {
        "EXPIRES": str(int(lease.expires.timestamp())),
        "SECONDS": str(max(60, int((lease.expires - now).total_seconds()))),
        "IDLE_SECONDS": str(host.idle_minutes * 60),
        "EARLY_SECONDS": str(early_s),
        "USER": host.runner_user,
        "FOLDER": host.runner_folder,
        "SPOT": "yes" if spot else "no",
        "ENDS": ends,
        "KEPT": _KEPT_FROM_METADATA[ends].replace("@USER@", host.runner_user),
        "CONFIGURATION": configuration if ends == "machine" else f"${CONFIGURATION}",
    }
    first, second = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("first.sh", "second.sh"))
    return _filled(first, values), _filled(second, values)


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub("@([A-Z_]+)@", lambda match: values[match[1]], text)
