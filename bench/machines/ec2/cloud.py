"""What exists in a region with our tags, and the end of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from bench.machines.facts import Kind, Machine, State
from bench.machines.lease import Scope, lease_of

_STATES: dict[str, State] = {
    "pending": "pending",
    "running": "running",
    # A stopped machine can start again, and its disk costs money.
    "stopping": "running",
    "stopped": "running",
    "shutting-down": "ending",
    "terminated": "ended",
}
_GONE = ("InvalidInstanceID.NotFound", "InvalidVolume.NotFound", "InvalidSpotInstanceRequestID.NotFound")
_AT_ONCE = 100


def client(region: str) -> Any:
    """EC2 in one region, by the credentials of the environment; a request that was lost is sent again."""
    import boto3
    from botocore.config import Config

    patience = Config(retries={"mode": "standard", "total_max_attempts": 5}, connect_timeout=10, read_timeout=60)
    return boto3.client("ec2", region_name=region, config=patience)


def code_of(error: Exception) -> str:
    """What EC2 calls the fault; the kind of error where it did not answer."""
    answer = getattr(error, "response", None)
    found = answer.get("Error", {}).get("Code", "") if isinstance(answer, Mapping) else ""
    return str(found or type(error).__name__)


def said(error: Exception) -> str:
    """The fault in one line."""
    answer = getattr(error, "response", None)
    message = answer.get("Error", {}).get("Message", "") if isinstance(answer, Mapping) else str(error)
    return f"{code_of(error)}: {message}"


def in_region(ec2: Any, region: str, scope: Scope, price: Callable[[str], float | None]) -> Iterator[Machine]:
    """All that exists there; raises botocore's errors."""
    tags = {**scope.tags(), "mldb-engine": "ec2"}
    ours = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
    alive = {"Name": "instance-state-name", "Values": [state for state in _STATES if state != "terminated"]}
    for page in ec2.get_paginator("describe_instances").paginate(Filters=[*ours, alive]):
        for reservation in page["Reservations"]:
            for it in reservation["Instances"]:
                facts = (price(it["InstanceType"]), it.get("LaunchTime"))
                yield from _ours(it, "machine", region, it["InstanceId"], _STATES[it["State"]["Name"]], *facts)
    # A disk in use belongs to its machine, and goes with it.
    unused = {"Name": "status", "Values": ["available", "error"]}
    for page in ec2.get_paginator("describe_volumes").paginate(Filters=[*ours, unused]):
        for it in page["Volumes"]:
            yield from _ours(it, "volume", region, it["VolumeId"], "running", None, it.get("CreateTime"))
    asked = {"Name": "state", "Values": ["open", "active"]}
    for page in ec2.get_paginator("describe_spot_instance_requests").paginate(Filters=[*ours, asked]):
        for it in page["SpotInstanceRequests"]:
            name = it["SpotInstanceRequestId"]
            yield from _ours(it, "request", region, name, "running", None, it.get("CreateTime"))


def _ours(
    found: Mapping[str, Any],
    kind: Kind,
    region: str,
    name: str,
    state: State,
    price: float | None,
    started: datetime | None,
) -> Iterator[Machine]:
    lease = lease_of({tag["Key"]: tag["Value"] for tag in found.get("Tags", ())})
    if lease is not None:
        yield Machine(f"{region}/{name}", lease, state, kind, region, price, started)


def end_all(ec2: Any, machines: Sequence[Machine]) -> Iterator[tuple[Machine, str]]:
    """End these of one region; each with what went wrong, which is empty where nothing did."""
    calls: dict[Kind, Callable[[list[str]], Any]] = {
        # Requests first: one that is open could still become a machine.
        "request": lambda names: ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=names),
        "machine": lambda names: ec2.terminate_instances(InstanceIds=names),
    }
    for kind, call in calls.items():
        chosen = [machine for machine in machines if machine.kind == kind]
        for start in range(0, len(chosen), _AT_ONCE):
            yield from _end(chosen[start : start + _AT_ONCE], call)
    for machine in machines:
        if machine.kind == "volume":
            yield from _end([machine], lambda names: ec2.delete_volume(VolumeId=names[0]))


def _end(machines: Sequence[Machine], call: Callable[[list[str]], Any]) -> Iterator[tuple[Machine, str]]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        call([machine.id.rpartition("/")[2] for machine in machines])
    except (BotoCoreError, ClientError) as error:
        if code_of(error) in _GONE and len(machines) == 1:
            yield machines[0], ""
        elif len(machines) > 1:
            # One of them that cannot be ended must not keep the others.
            for machine in machines:
                yield from _end([machine], call)
        else:
            yield machines[0], said(error)
    else:
        yield from ((machine, "") for machine in machines)
