"""The one request that makes a machine: what it is, what it does from its first second on, how it ends, whose it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from typing import Any

from bench.base.errors import UserError
from bench.machines.boot import boot_scripts
from bench.machines.lease import Lease
from bench.machines.settings import Ec2Machine, Ec2Options, Ec2Place

MOST_BYTES = 16_384
"""Of user data, before its encoding for the request: a limit of EC2's."""
_PARTS = (("first.sh", "cloud-boothook"), ("second.sh", "x-shellscript"))
_TAGGED = ("instance", "volume", "network-interface")


@dataclass(frozen=True)
class Try:
    """A place, a type and a market in which a machine is asked for."""

    place: Ec2Place
    subnet: str
    kind: str
    spot: bool

    @property
    def name(self) -> str:
        return f"{self.kind} in {self.place.region}, {self.subnet}{', spot' * self.spot}"

    def token(self, lease: Lease) -> str:
        """Makes the request one that EC2 carries out once, however often it is sent."""
        facts = "\0".join((lease.id, self.place.region, self.subnet, self.kind, str(self.spot)))
        return f"mldb-{lease.id}-{hashlib.sha256(facts.encode()).hexdigest()[:32]}"


def tries(options: Ec2Options, machine: Ec2Machine) -> Iterator[Try]:
    """In the order in which they are tried: spot before on-demand, and then as the file says."""
    for spot in {"never": (False,), "prefer": (True, False), "only": (True,)}[options.spot]:
        for place in options.places:
            for kind in machine.types:
                for subnet in place.subnets:
                    yield Try(place, subnet, kind, spot)


def run_instances(
    asked: Try, lease: Lease, machine: Ec2Machine, user_data: str, image: Mapping[str, Any], max_price: float | None
) -> dict[str, Any]:
    """The parameters of RunInstances; image: what DescribeImages says of the place's image."""
    tags = [{"Key": key, "Value": value} for key, value in lease.tags().items()]
    tags.append({"Key": "Name", "Value": lease.label})
    spot: dict[str, Any] = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    if max_price is not None:
        spot["MaxPrice"] = f"{max_price:.6f}"
    market = {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": spot}} if asked.spot else {}
    kinds = [*_TAGGED, *(["spot-instances-request"] if asked.spot else [])]
    return {
        "ClientToken": asked.token(lease),
        "MinCount": 1,
        "MaxCount": 1,
        "ImageId": asked.place.image,
        "InstanceType": asked.kind,
        "UserData": user_data,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "DisableApiTermination": False,
        "BlockDeviceMappings": list(_disks(image, machine)),
        "NetworkInterfaces": [
            {
                "DeviceIndex": 0,
                "SubnetId": asked.subnet,
                "DeleteOnTermination": True,
                **({"Groups": asked.place.security_groups} if asked.place.security_groups else {}),
            }
        ],
        # Answers to tokens only, which one hop does not carry into a container; without an instance profile there are
        # no credentials behind it either.
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1, "HttpEndpoint": "enabled"},
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in kinds],
        **market,
    }


def _disks(image: Mapping[str, Any], machine: Ec2Machine) -> Iterator[dict[str, Any]]:
    """Every disk goes with its machine, also those that the image brings."""
    root = image.get("RootDeviceName") or "/dev/sda1"
    yield {
        "DeviceName": root,
        "Ebs": {"VolumeSize": machine.disk_gb, "VolumeType": "gp3", "DeleteOnTermination": True},
    }
    others: Sequence[Mapping[str, Any]] = image.get("BlockDeviceMappings") or ()
    for disk in others:
        if disk.get("DeviceName") != root and "Ebs" in disk:
            yield {"DeviceName": disk["DeviceName"], "Ebs": {"DeleteOnTermination": True}}


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
