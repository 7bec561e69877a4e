"""AWS over HTTP: moto's server, with the gaps filled that machines depend on.

moto makes a second machine for a client token that it knows, keeps no request for a spot machine, and always has
capacity. Here a token counts, as EC2's documentation says (ec2-api-idempotency): the same request again is the same
machine, and another request with it is an error.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import moto.settings
from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends
from moto.ec2.models.spot_requests import SpotInstanceRequest
from moto.ec2.responses.instances import InstanceResponse
from moto.ec2.utils import random_spot_request_id
from moto.server import ThreadedMotoServer

ACCOUNT = "123456789012"
REGIONS = ("us-east-1", "us-west-2")
_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_MAX_ATTEMPTS": "1",
}


class _SpotRequest(SpotInstanceRequest):  # type: ignore[misc]
    """The request that RunInstances makes for its machine, and ends with it."""

    def __init__(self, made: Any, *facts: Any, **named: Any) -> None:
        self.made = made
        super().__init__(*facts, **named)

    def launch_instance(self) -> Any:
        return self.made

    @property
    def state(self) -> str:
        alive = ("pending", "running", "stopping", "stopped")
        return "active" if str(self.made.state) in alive else "closed"

    @state.setter
    def state(self, value: str) -> None:
        del value


@dataclass
class Cloud:
    """A running stand-in."""

    address: str
    full: set[tuple[str, str]] = field(default_factory=set)
    """(market, type) of which there is none: `spot` or `on-demand`."""
    faults: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Region to the code and message that RunInstances answers."""
    delay_s: float = 0.0
    """From the making of a machine to the answer."""
    tokens: dict[str, tuple[str, Any]] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)
    """What RunInstances was sent."""

    @property
    def environment(self) -> dict[str, str]:
        """For boto3 of any process."""
        return {**_ENVIRONMENT, "AWS_ENDPOINT_URL": self.address}

    def backend(self, region: str) -> Any:
        return ec2_backends[ACCOUNT][region]

    def instances(self, repository: str = "", alive: bool = True) -> list[Any]:
        """Of all regions; repository: those with its tag."""
        found = [it for region in REGIONS for it in self.backend(region).all_instances()]
        return [
            it
            for it in found
            if (not alive or it.state in ("pending", "running", "stopping", "stopped"))
            and repository in ("", tags_of(it).get("mldb-repository"))
        ]

    def left_over(self, repository: str) -> list[str]:
        """Everything with the repository's tags that costs money, or may come to."""
        left = [f"instance {it.id}" for it in self.instances(repository)]
        for region in REGIONS:
            backend = self.backend(region)
            ours = [it for it in backend.volumes.values() if tags_of(it).get("mldb-repository") == repository]
            left += [f"volume {it.id}" for it in ours]
            asked = backend.spot_instance_requests.values()
            left += [
                f"request {it.id}"
                for it in asked
                if it.state in ("open", "active") and tags_of(it).get("mldb-repository") == repository
            ]
            ends = [it for it in backend.enis.values() if tags_of(it).get("mldb-repository") == repository]
            left += [f"interface {it.id}" for it in ends]
        return left

    def subnets(self, region: str) -> list[str]:
        return sorted(str(it.id) for zone in self.backend(region).subnets.values() for it in zone.values())

    def image(self, region: str) -> str:
        return str(min(self.backend(region).amis))


def tags_of(resource: Any) -> dict[str, str]:
    return {it["key"]: it["value"] for it in resource.get_tags()}


@contextlib.contextmanager
def cloud() -> Iterator[Cloud]:
    """Empty regions; the credentials and the address of boto3 are in the environment meanwhile."""
    run_instances = InstanceResponse.run_instances
    for region in REGIONS:
        ec2_backends[ACCOUNT][region].reset()
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    # A line for each request would bury what a failing test has to say.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    host, port = server.get_host_and_port()
    made = Cloud(f"http://{host}:{port}")
    lock = threading.Lock()

    def answered(self: InstanceResponse) -> ActionResult:
        with lock:
            answer = _run(made, self, run_instances)
        time.sleep(made.delay_s)
        return answer

    before = {name: os.environ.get(name) for name in made.environment}
    os.environ.update(made.environment)
    old, moto.settings.EC2_ENABLE_INSTANCE_TYPE_VALIDATION = moto.settings.EC2_ENABLE_INSTANCE_TYPE_VALIDATION, True
    InstanceResponse.run_instances = answered
    try:
        yield made
    finally:
        InstanceResponse.run_instances = run_instances
        moto.settings.EC2_ENABLE_INSTANCE_TYPE_VALIDATION = old
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
        server.stop()


def _run(made: Cloud, response: Any, run_instances: Any) -> ActionResult:
    asked = _plain(response)
    made.requests.append(asked)
    market = asked.get("InstanceMarketOptions.MarketType", "on-demand")
    if fault := made.faults.get(response.region):
        raise EC2ClientError(*fault)
    known = made.tokens.get(asked["ClientToken"])
    if known is not None and known[0] != str(asked):
        raise EC2ClientError("IdempotentParameterMismatch", "The client token is known with other parameters")
    if known is not None:
        return ActionResult(known[1])
    if (market, asked.get("InstanceType")) in made.full:
        raise EC2ClientError("InsufficientInstanceCapacity", "We currently do not have sufficient capacity")
    result = run_instances(response)
    reservation = SimpleNamespace(**result.result) if isinstance(result.result, dict) else result.result
    made.tokens[asked["ClientToken"]] = (str(asked), reservation)
    if market == "spot":
        _keep_request(response, reservation.instances[0])
    return result


def _plain(response: Any) -> dict[str, str]:
    return {key: value[0] for key, value in response.data.items()}


def _keep_request(response: Any, instance: Any) -> None:
    name = random_spot_request_id()
    tags: Mapping[str, dict[str, str]] = response._parse_tag_specification()
    nothing: dict[str, Any] = dict.fromkeys(
        ("valid_from", "valid_until", "launch_group", "availability_zone_group", "user_data", "placement")
    )
    kept = _SpotRequest(
        instance,
        response.ec2_backend,
        name,
        price="",
        image_id=instance.image_id,
        spot_instance_type="one-time",
        key_name="",
        security_groups=[],
        instance_type=instance.instance_type,
        kernel_id=None,
        ramdisk_id=None,
        monitoring_enabled=False,
        subnet_id=instance.subnet_id,
        tags=dict(tags),
        spot_fleet_id=None,
        instance_interruption_behaviour="terminate",
        **nothing,
    )
    response.ec2_backend.spot_instance_requests[name] = kept
