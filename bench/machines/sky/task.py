"""What SkyPilot is asked for: a cluster of one machine, with its labels, its price, and its end in the same request."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from bench.machines.boot import CONFIGURATION, boot_scripts
from bench.machines.facts import Demand
from bench.machines.lease import Lease, Scope, lease_of, narrow_label
from bench.machines.settings import SkyMachine, SkyOptions

AFTER_MINUTES = 5
"""After the last job of a cluster, until its own agent deletes it."""
EARLY = timedelta(minutes=AFTER_MINUTES + 5)
"""Before the end of its lease: the runner is ended, so that the deletion comes before the power-off."""
_GIB = 1024


def cluster_of(lease: Lease) -> str:
    """The name of the lease's cluster: the same one asked for twice is one cluster."""
    return f"mldb-{lease.id}"


def labels_of(lease: Lease) -> dict[str, str]:
    """The lease's tags as labels that every cloud takes."""
    return {name: narrow_label(value) for name, value in lease.tags().items()}


def lease_in(labels: Mapping[str, str], scope: Scope) -> Lease | None:
    """The lease that these labels carry, if it is one of the scope's.

    A label has the repository's name in a narrower alphabet, from which it cannot be read back, so it is compared.
    """
    if labels.get("mldb-repository") != narrow_label(scope.repository.lower()):
        return None
    lease = lease_of({**labels, "mldb-repository": scope.repository.lower()})
    return lease if lease is not None and lease.engine == "sky" and scope.holds(lease) else None


def labels_in(task: str) -> dict[str, str]:
    """The labels that a task asks for; empty for one that is not of ours, which may be anything."""
    try:
        # The server keeps a task as it was sent, and ours are JSON.
        found = json.loads(task)
    except ValueError:
        return {}
    resources = found.get("resources") if isinstance(found, dict) else None
    labels = resources.get("labels") if isinstance(resources, dict) else None
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}


def task_for(
    lease: Lease, demand: Demand, options: SkyOptions, machine: SkyMachine, configuration: str, now: datetime
) -> str:
    """The task of a cluster. It is JSON, which is YAML, too."""
    scripts = boot_scripts(lease, options, configuration, now, ends="cluster", early_s=int(EARLY.total_seconds()))
    return json.dumps(
        {
            "name": cluster_of(lease),
            "resources": {
                **_resources(demand, options, machine),
                "labels": labels_of(lease),
                "autostop": {"idle_minutes": AFTER_MINUTES, "down": True, "wait_for": "jobs"},
            },
            "secrets": {CONFIGURATION: configuration},
            "run": "\n".join(_commands(scripts)),
            **_pod(lease, machine, now),
        }
    )


def question(demand: Demand, options: SkyOptions, machine: SkyMachine) -> str:
    """A task by which SkyPilot says whether there is such a machine at this price."""
    return json.dumps({"resources": _resources(demand, options, machine), "run": "true"})


def _resources(demand: Demand, options: SkyOptions, machine: SkyMachine) -> dict[str, Any]:
    markets = {"never": [False], "prefer": [True, False], "only": [True]}[options.spot]
    offers = [{"infra": place, "use_spot": spot} for spot in markets for place in machine.infra]
    return {
        **({"accelerators": machine.accelerators} if machine.accelerators else {}),
        **({"cpus": f"{demand.cpus}+"} if demand.cpus else {}),
        **({"memory": f"{math.ceil(demand.memory_mb / _GIB)}+"} if demand.memory_mb else {}),
        "image_id": machine.image,
        "disk_size": machine.disk_gb,
        "max_hourly_cost": machine.usd_per_hour,
        **(offers[0] if len(offers) == 1 else {"ordered": offers}),
    }


def _commands(scripts: tuple[str, str]) -> Iterator[str]:
    """The scripts are written by root, for root; the configuration is only in the environment."""
    yield "sudo install -d -m 0700 /run/mldb-boot || exit 1"
    for name, text in zip(("first.sh", "second.sh"), scripts, strict=True):
        packed = base64.b64encode(text.encode()).decode()
        yield f"echo {packed} | base64 -d | sudo tee /run/mldb-boot/{name} >/dev/null || exit 1"
    yield "sudo sh /run/mldb-boot/first.sh"
    yield f"exec sudo --preserve-env={CONFIGURATION} bash /run/mldb-boot/second.sh"


def _pod(lease: Lease, machine: SkyMachine, now: datetime) -> dict[str, Any]:
    """A pod ends at its deadline, by Kubernetes itself; bubblewrap needs it to be privileged."""
    if not machine.has_pods:
        return {}
    left = max(60, int((lease.expires - now).total_seconds()))
    spec = {"activeDeadlineSeconds": left, "containers": [{"securityContext": {"privileged": True}}]}
    return {"config": {"kubernetes": {"pod_config": {"spec": spec}}}}
