"""Whether a Batch queue and its job definition are what this project's promises rest on; looked at before a launch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.base.errors import UserError
from bench.machines.facts import Demand
from bench.machines.settings import BatchMachine, BatchOptions

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_KEYS = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)(_|$)", re.IGNORECASE)
_SECRET_ARN = re.compile(r"arn:aws[a-z-]*:secretsmanager:")
_AGENT_SHARE = 0.75
"""The job's part of the machine's memory: the rest is for the agent of ECS and the kernel, and too little for a second
job of this size."""
_SEE = "see docs/machines-batch.md"
Answer = Mapping[str, Any]


def setup_faults(batch: Any, ec2: Any, options: BatchOptions, demands: Sequence[Demand]) -> list[str]:
    """What is not as it must be, a line each. batch, ec2: clients of boto3, whose errors pass through."""
    faults: list[str] = []
    used = {demand.machine: demand for demand in sorted(demands, key=lambda it: (it.cpus, it.gpus))}
    queues = list(_pages(batch, "describe_job_queues", "jobQueues"))
    for name, demand in used.items():
        one = options.machines[name]
        found = _class_faults(batch, ec2, one, demand, queues, options)
        faults += [f"class {name!r}: {fault}" for fault in found]
    return faults


def _class_faults(
    batch: Any, ec2: Any, one: BatchMachine, demand: Demand, queues: Sequence[Answer], options: BatchOptions
) -> Iterator[str]:
    queue = next((it for it in queues if one.queue in (it["jobQueueName"], it["jobQueueArn"])), None)
    if queue is None:
        yield f"there is not a queue {one.queue!r}"
        return
    if (queue["state"], queue["status"]) != ("ENABLED", "VALID"):
        yield f"queue {one.queue!r} is {queue['state']} and {queue['status']}"
    order = queue["computeEnvironmentOrder"]
    if len(order) != 1:
        yield f"queue {one.queue!r} has {len(order)} compute environments, and must have one"
        return
    arn = order[0]["computeEnvironment"]
    sharing = [it["jobQueueName"] for it in queues if any(_same(arn, o) for o in it["computeEnvironmentOrder"])]
    if len(sharing) > 1:
        yield f"its compute environment serves {' and '.join(sorted(sharing))}: a privileged job must share with none"
    found = batch.describe_compute_environments(computeEnvironments=[arn])["computeEnvironments"]
    if not found:
        yield f"there is not a compute environment {arn!r}"
        return
    yield from _environment_faults(found[0])
    types = found[0].get("computeResources", {}).get("instanceTypes", [])
    if len(types) == 1 and "." in types[0]:
        yield from _job_faults(batch, ec2, one, demand, types[0], options)
    yield from _metadata_faults(ec2, found[0])


def _same(arn: str, order: Answer) -> bool:
    return bool(order["computeEnvironment"] == arn)


def _environment_faults(environment: Answer) -> Iterator[str]:
    name, resources = environment["computeEnvironmentName"], environment.get("computeResources", {})
    if environment["type"] != "MANAGED" or resources.get("type") not in ("EC2", "SPOT"):
        yield f"compute environment {name!r} is not a managed one of EC2 machines, which privileged jobs need"
    if (environment["state"], environment["status"]) != ("ENABLED", "VALID"):
        yield f"compute environment {name!r} is {environment['state']} and {environment['status']}"
    if resources.get("minvCpus", 0) != 0:
        yield f"compute environment {name!r} keeps {resources['minvCpus']} CPUs when idle: set minvCpus to 0"
    types = resources.get("instanceTypes", [])
    if len(types) != 1 or "." not in types[0]:
        yield f"compute environment {name!r} must name one instance type, so that a job fills its machine"


def _metadata_faults(ec2: Any, environment: Answer) -> Iterator[str]:
    """The metadata service hands out the role of the machine: a hop limit of 1 keeps containers from it."""
    template = environment.get("computeResources", {}).get("launchTemplate")
    if not template:
        yield "its compute environment has no launch template, so containers reach the metadata service"
        return
    which = {
        key: template[name]
        for key, name in (("LaunchTemplateId", "launchTemplateId"), ("LaunchTemplateName", "launchTemplateName"))
        if template.get(name)
    }
    version = template.get("version") or "$Default"
    if version.startswith("$"):
        yield f"its launch template is version {version}, which changes its meaning: name a number"
    versions = ec2.describe_launch_template_versions(**which, Versions=[version])["LaunchTemplateVersions"]
    metadata = versions[0]["LaunchTemplateData"].get("MetadataOptions", {}) if versions else {}
    if metadata.get("HttpTokens") != "required" or metadata.get("HttpPutResponseHopLimit") != 1:
        yield "its launch template does not demand HttpTokens required and HttpPutResponseHopLimit 1"


def _job_faults(
    batch: Any, ec2: Any, one: BatchMachine, demand: Demand, instance: str, options: BatchOptions
) -> Iterator[str]:
    name, _, revision = one.definition.rpartition("/")[2].partition(":")
    named = {"jobDefinitionName": name, "status": "ACTIVE"}
    found = list(_pages(batch, "describe_job_definitions", "jobDefinitions", **named))
    job = next((it.get("containerProperties") for it in found if str(it["revision"]) == revision), None)
    if job is None:
        yield f"there is not an active job definition {one.definition!r} of a container"
        return
    yield from _container_faults(job, options)
    (facts,) = ec2.describe_instance_types(InstanceTypes=[instance])["InstanceTypes"]
    has = {
        "VCPU": facts["VCpuInfo"]["DefaultVCpus"],
        "MEMORY": facts["MemoryInfo"]["SizeInMiB"],
        "GPU": sum(gpu["Count"] for gpu in facts.get("GpuInfo", {}).get("Gpus", [])),
    }
    asks = {it["type"]: int(it["value"]) for it in job.get("resourceRequirements", [])}
    for kind in ("VCPU", "GPU"):
        if asks.get(kind, 0) != has[kind]:
            yield f"the job asks for {asks.get(kind, 0)} {kind} of the {has[kind]} of {instance}, and must fill it"
    if not _AGENT_SHARE * has["MEMORY"] <= asks.get("MEMORY", 0) < has["MEMORY"]:
        yield f"the job asks for {asks.get('MEMORY', 0)} MiB of the {has['MEMORY']} of {instance}: ask for 75 to 95%"
    for kind, wanted in (("VCPU", demand.cpus), ("GPU", demand.gpus), ("MEMORY", demand.memory_mb)):
        if asks.get(kind, 0) < wanted:
            yield f"shard {demand.shard} needs {wanted} {kind}, and the job gets {asks.get(kind, 0)}"


def _container_faults(job: Answer, options: BatchOptions) -> Iterator[str]:
    if not job.get("privileged"):
        yield "the job is not privileged, so bubblewrap cannot make namespaces"
    if not _DIGEST.search(job.get("image", "")):
        yield f"image {job.get('image', '')!r} is not named by its digest (NAME@sha256:...)"
    if job.get("volumes") or job.get("mountPoints"):
        yield "the job mounts folders of its machine"
    plain = [it["name"] for it in job.get("environment", []) if _KEYS.search(it["name"])]
    if plain:
        yield f"{plain[0]} stands in the definition, where every reader of it sees the value: move it to `secrets`"
    for secret in job.get("secrets", []):
        if not _SECRET_ARN.match(secret["valueFrom"]):
            yield f"{secret['name']} is not from Secrets Manager"
    if options.mode == "runner" and (job.get("jobRoleArn") or job.get("secrets")):
        yield "a runner needs neither a job role nor secrets: its workflow brings them"
    if options.mode == "shard" and not job.get("jobRoleArn"):
        yield "the job has no role with which it could write its bundle"


def require_sound(faults: Sequence[str]) -> None:
    """Raise `UserError` where there are faults."""
    if faults:
        more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise UserError(f"{'; '.join(faults[:3])}{more}", where="batch", remedy=_SEE)


def _pages(client: Any, operation: str, key: str, **wanted: str) -> Iterator[Answer]:
    for page in client.get_paginator(operation).paginate(**wanted):
        yield from page[key]
