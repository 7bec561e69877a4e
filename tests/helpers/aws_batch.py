"""AWS Batch as moto has it, with the stack of docs/machines-batch-stack.yaml, and with what moto lacks.

moto's jobs are containers of Docker. It gives them no secrets, ends no job that waits, and asks for a bridge network.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore.config import Config

from bench.machines.settings import BatchMachine, BatchOptions

REGION = "eu-west-1"
IMAGE = f"registry.invalid/mldb@sha256:{'a' * 64}"
STACK = Path(__file__).parents[2] / "docs" / "machines-batch-stack.yaml"
SECRETS = {"seed": "one secret of the repository", "key": "sk-of-the-model"}
"""In Secrets Manager, for jobs of mode `shard`."""
_CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
    *("LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER"),
    *("SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP"),
)


@dataclass(frozen=True)
class Stack:
    """A created stack."""

    options: BatchOptions
    queue: str
    definition: str
    environment: str
    bucket: str

    @property
    def settings(self) -> dict[str, Any]:
        """The content of the machines file."""
        return {"batch": json.loads(self.options.model_dump_json(exclude_none=True))}


def jobs_of_queue() -> list[dict[str, Any]]:
    """All jobs of ours that Batch remembers."""
    batch = boto3.client("batch", region_name=REGION)
    listed = batch.list_jobs(jobQueue="mldb", filters=[{"name": "JOB_NAME", "values": ["mldb-*"]}])["jobSummaryList"]
    found: list[dict[str, Any]] = batch.describe_jobs(jobs=[job["jobId"] for job in listed])["jobs"] if listed else []
    return found


def unended_jobs() -> list[dict[str, Any]]:
    """Those that wait or run."""
    return [job for job in jobs_of_queue() if job["status"] not in ("SUCCEEDED", "FAILED")]


def container_of(job: Mapping[str, Any]) -> str:
    """The name of the container that is the job."""
    return f"{job['jobName']}-{job['jobId']}"


def docker(*words: str) -> str:
    """What the command said; empty where it failed."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def has_stored(job: Mapping[str, Any]) -> bool:
    """Whether the job, in either mode, has written a record."""
    folders = "/work/records /opt/runner/_work/temp/ml-dev-bench/shards"
    return bool(
        docker("exec", container_of(job), "sh", "-c", f"find {folders} -path '*/cells/*.json' 2>/dev/null || :")
    )


def said_by(job: dict[str, Any]) -> str:
    """The log of a job that has ended."""
    logs = boto3.client("logs", region_name=REGION)
    stream = job["container"]["logStreamName"]
    events = logs.get_log_events(logGroupName="/aws/batch/job", logStreamName=stream)["events"]
    return "\n".join(event["message"] for event in events)


def make_stack(
    *, change: Callable[[dict[str, Any]], None] = lambda resources: None, endpoint: str | None = None, **given: Any
) -> Stack:
    """The stack on moto, each resource by one request. change: alters the resources of the template before that."""
    template = yaml.safe_load(STACK.read_text(encoding="utf-8"))
    clients: dict[str, Any] = {}
    for name in ("ec2", "iam", "batch", "s3"):
        clients[name] = boto3.client(
            name, region_name=REGION, endpoint_url=endpoint, config=Config(s3={"addressing_style": "path"})
        )
    values = {name: it.get("Default") for name, it in template["Parameters"].items()}
    subnet = clients["ec2"].describe_subnets()["Subnets"][0]["SubnetId"]
    group = clients["ec2"].describe_security_groups()["SecurityGroups"][0]["GroupId"]
    values |= {"Image": IMAGE, "Subnets": [subnet], "SecurityGroup": group, "InstanceType": "m5.large", "Cpus": 2}
    values |= {"MemoryMiB": 7000, "Gpus": 0, **given}
    template_resources = _Resolver(template, values)
    resources = template_resources.resources()
    change(resources)
    return _create(clients, resources, values)


def _create(clients: Mapping[str, Any], resources: dict[str, Any], values: Mapping[str, Any]) -> Stack:
    roles: dict[str, str] = {}
    for name in ("MachineRole", "StarterRole", "ShardRole"):
        if name in resources:
            policy = str(resources[name]["AssumeRolePolicyDocument"])
            made = clients["iam"].create_role(RoleName=name, AssumeRolePolicyDocument=policy)
            roles[name] = made["Role"]["Arn"]
    profile = clients["iam"].create_instance_profile(InstanceProfileName="machine")["InstanceProfile"]["Arn"]
    data = resources["Template"]["LaunchTemplateData"]
    launch = clients["ec2"].create_launch_template(LaunchTemplateName="machines", LaunchTemplateData=data)
    batch = clients["batch"]
    facts = _lowered(resources["Machines"]["ComputeResources"])
    # moto wants one, and has no role that Batch makes by itself.
    service = clients["iam"].create_role(RoleName="service", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    facts |= {"instanceRole": profile, "tags": resources["Machines"]["ComputeResources"]["Tags"]}
    if "launchTemplate" in facts:
        facts["launchTemplate"] = {"launchTemplateId": launch["LaunchTemplate"]["LaunchTemplateId"], "version": "1"}
    environment = batch.create_compute_environment(
        computeEnvironmentName="machines", type="MANAGED", state="ENABLED", computeResources=facts, serviceRole=service
    )["computeEnvironmentArn"]
    order = [{"order": 1, "computeEnvironment": environment}]
    queue = batch.create_job_queue(jobQueueName="mldb", state="ENABLED", priority=1, computeEnvironmentOrder=order)
    definition = _lowered(resources["Definition"])
    container = definition["containerProperties"]
    container["executionRoleArn"] = roles["StarterRole"]
    container["resourceRequirements"] = [{**it, "value": str(it["value"])} for it in container["resourceRequirements"]]
    if "jobRoleArn" in container:
        container["jobRoleArn"] = roles["ShardRole"]
    registered = batch.register_job_definition(jobDefinitionName="mldb", **definition)
    bucket = "mldb-bundles" if "Bundles" in resources else ""
    if bucket:
        clients["s3"].create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    name = f"{registered['jobDefinitionName']}:{registered['revision']}"
    machine = BatchMachine(queue="mldb", definition=name, usd_per_hour=0.5, priced=date(2026, 11, 1))
    options = BatchOptions(
        mode=values["Mode"],
        region=REGION,
        machines={"box": machine},
        bundles=f"s3://{bucket}/shards" if bucket else None,
        runner_released=date(2026, 11, 20) if values["Mode"] == "runner" else None,
    )
    return Stack(options, queue["jobQueueArn"], name, environment, bucket)


class _Resolver:
    """The functions of CloudFormation that the template uses; names of other resources stay as they are."""

    def __init__(self, template: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        self._template = template
        self._values = values

    def resources(self) -> dict[str, Any]:
        wanted = self._template["Resources"].items()
        return {name: self._of(it["Properties"]) for name, it in wanted if self._holds(it.get("Condition"))}

    def _holds(self, condition: str | None) -> bool:
        return condition is None or bool(self._of(self._template["Conditions"][condition]))

    def _of(self, value: Any) -> Any:
        if isinstance(value, list):
            return [it for it in map(self._of, value) if it is not _NONE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            (name, argument) = next(iter(value.items()))
            if name == "Ref":
                return _NONE if argument == "AWS::NoValue" else self._values.get(argument, argument)
            if name == "Condition" and isinstance(argument, str):
                return self._holds(argument)
            if name.startswith("Fn::"):
                return self._function(name, argument)
        return {key: it for key, found in value.items() if (it := self._of(found)) is not _NONE}

    def _function(self, name: str, argument: Any) -> Any:
        if name == "Fn::If":
            return self._of(argument[1] if self._holds(argument[0]) else argument[2])
        if name == "Fn::GetAtt":
            return ".".join(argument)
        if name == "Fn::Sub":
            return re.sub(r"\$\{([^}]+)\}", lambda found: str(self._values.get(found[1], found[1])), argument)
        if name == "Fn::Base64":
            return base64.b64encode(self._of(argument).encode()).decode()
        answers = self._of(argument)
        return {
            "Fn::Equals": lambda: str(answers[0]) == str(answers[1]),
            "Fn::And": lambda: all(answers),
            "Fn::Or": lambda: any(answers),
            "Fn::Not": lambda: not answers[0],
        }[name]()


_NONE = object()


def _lowered(value: Any) -> Any:
    """CloudFormation and the service write the same names, but for their first letter."""
    if isinstance(value, list):
        return [_lowered(it) for it in value]
    if isinstance(value, dict):
        return {f"{key[0].lower()}{key[1:]}": _lowered(it) for key, it in value.items()}
    return value


@contextmanager
def waiting_jobs(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Jobs wait for a machine for ever, and are cancelled by TerminateJob, as moto's are not."""
    from moto.batch.models import Job

    with patch.context() as patched:
        patched.setattr(Job, "run", lambda self: None)
        patched.setattr(Job, "terminate", lambda self, reason: self._mark_stopped(success=False))
        yield


def as_containers(patch: pytest.MonkeyPatch, role: Mapping[str, str]) -> None:
    """Let moto's jobs be containers on this machine, which has no bridge network and may be a container itself.

    role: variables by which a job has its role. Docker's `privileged` asks for capabilities that a container does not
    have: the job gets all that are there. The engine reaches no registry, so a digest names an image of its own.
    """
    import docker
    from docker.models.containers import ContainerCollection
    from moto.batch.models import batch_backends
    from moto.core.models import DEFAULT_ACCOUNT_ID

    backend = batch_backends[DEFAULT_ACCOUNT_ID][REGION]

    def started(self: Any, image: str, command: Any, **options: Any) -> Any:
        job = next(it for it in backend._jobs.values() if f"{it.job_name}-{it.job_id}" == options["name"])
        told = {**options["environment"], **role}
        secrets = boto3.client("secretsmanager", region_name=REGION)
        for secret in (job.job_definition.container_properties or {}).get("secrets", []):
            told[secret["name"]] = secrets.get_secret_value(SecretId=secret["valueFrom"])["SecretString"]
        assert options["privileged"] and not options["mounts"]
        api = self.client.api
        host = api.create_host_config(
            network_mode="host",
            log_config=options["log_config"],
            init=True,
            cap_add=_capabilities(),
            security_opt=["seccomp=unconfined", "apparmor=unconfined"],
        )
        host |= {"MaskedPaths": [], "ReadonlyPaths": []}
        made = api.create_container(
            image.partition("@")[2], command, environment=told, name=options["name"], host_config=host
        )
        api.start(made)
        return self.get(made["Id"])

    assert docker.from_env().ping()
    patch.setattr(ContainerCollection, "run", started)


def _capabilities() -> list[str]:
    bound = int(re.search(r"CapBnd:\s*(\w+)", Path("/proc/self/status").read_text())[1], 16)  # type: ignore[index]
    return [name for number, name in enumerate(_CAPABILITIES) if bound >> number & 1]
