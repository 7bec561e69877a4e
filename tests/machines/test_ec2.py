"""Machines of EC2: one request with everything that is the machine's own, in a place that has one, within a budget."""

from __future__ import annotations

import base64
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.model import ListShape, Shape, StructureShape
from botocore.validate import ParamValidator

from bench.base.errors import UserError
from bench.machines import Demand, Ec2Engine, Lease, Machine, OutOfCapacity, Run, Scope, provision_all
from bench.machines.ec2.cloud import client
from tests.helpers.aws import REGIONS, Cloud, cloud, tags_of
from tests.helpers.machines import DEMANDS, REPOSITORY, later, options_for


@dataclass(frozen=True)
class Configured:
    id: int = 1
    name: str = "runner"
    configuration: str = "QUJD"


def lease(shard: str = "box-001") -> Lease:
    return Lease("ec2", REPOSITORY, "7", 1, shard, later(hours=2)())


@pytest.fixture(scope="module")
def shared() -> Iterator[Cloud]:
    with cloud() as made:
        yield made
    checked_client.cache_clear()


@pytest.fixture
def aws(shared: Cloud) -> Cloud:
    """With nothing in it, and nothing wrong."""
    for instance in shared.instances():
        instance.terminate()
    for region in REGIONS:
        shared.backend(region).spot_instance_requests.clear()
    for told in (shared.full, shared.faults, shared.tokens):
        told.clear()
    shared.requests.clear()
    return shared


@functools.cache
def checked_client(region: str) -> Any:
    """A client that checks every request against botocore's description of EC2, the values of enumerations too."""
    ec2 = client(region)

    def check(params: dict[str, Any], model: Any, **_: Any) -> None:
        report = ParamValidator().validate(params, model.input_shape)
        assert not report.has_errors(), report.generate_report()
        faults = list(unknown_values(params, model.input_shape, model.name))
        assert not faults, faults

    ec2.meta.events.register("provide-client-params.ec2", check)
    return ec2


def unknown_values(value: Any, shape: Shape, where: str) -> Iterator[str]:
    if isinstance(shape, StructureShape):
        for name, inner in value.items():
            yield from unknown_values(inner, shape.members[name], f"{where}.{name}")
    elif isinstance(shape, ListShape):
        for inner in value:
            yield from unknown_values(inner, shape.member, where)
    elif getattr(shape, "enum", None) and value not in shape.enum:
        yield f"{where}: {value!r}"


def engine_for(aws: Cloud, **changes: Any) -> Ec2Engine:
    return Ec2Engine(options_for(aws, **changes), connect=checked_client)


def launch(engine: Ec2Engine, held: Lease | None = None) -> Machine:
    return engine.launch(held or lease(), DEMANDS[0], Configured())


@pytest.mark.parametrize("spot", ["never", "only"])
def test_one_request_says_everything(aws: Cloud, spot: str) -> None:
    held = lease()
    made = launch(engine_for(aws, spot=spot), held)
    (asked,) = aws.requests
    assert asked["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert asked["MetadataOptions.HttpTokens"] == "required"
    assert asked["MetadataOptions.HttpPutResponseHopLimit"] == "1"
    assert asked["BlockDeviceMapping.1.Ebs.DeleteOnTermination"] == "true"
    assert asked["NetworkInterface.1.DeleteOnTermination"] == "true"
    assert asked["ClientToken"].startswith(f"mldb-{held.id}-") and len(asked["ClientToken"]) <= 64
    assert not [key for key in asked if key.startswith("IamInstanceProfile")]
    assert b"cloud-boothook" in base64.b64decode(asked["UserData"])
    tagged = {value for key, value in asked.items() if key.endswith("ResourceType")}
    kinds = {"instance", "volume", "network-interface"}
    assert tagged == (kinds | {"spot-instances-request"} if spot == "only" else kinds)
    assert asked.get("InstanceMarketOptions.SpotOptions.SpotInstanceType") == ("one-time" if spot == "only" else None)
    (instance,) = aws.instances(REPOSITORY)
    assert made.id == f"us-east-1/{instance.id}" and {**held.tags(), "Name": held.label} == tags_of(instance)


def test_where_one_place_has_none_the_next_is_asked(aws: Cloud) -> None:
    aws.full |= {("spot", "g5.xlarge"), ("spot", "g4dn.xlarge"), ("on-demand", "g5.xlarge")}
    made = launch(engine_for(aws, spot="prefer"))
    (instance,) = aws.instances(REPOSITORY)
    assert (instance.instance_type, made.usd_per_hour) == ("g4dn.xlarge", 0.526)
    # Spot in two regions with two types in two subnets each, then on demand the first type in the first region.
    assert len(aws.requests) == 2 * 2 * 2 + 2 + 1
    assert len({asked["ClientToken"] for asked in aws.requests}) == len(aws.requests)


def test_where_no_place_has_one_every_refusal_is_told(aws: Cloud) -> None:
    aws.full |= {("on-demand", "g5.xlarge"), ("on-demand", "g4dn.xlarge")}
    with pytest.raises(OutOfCapacity, match=r"shard box-001: EC2 has no machine: g5.xlarge in us-east-1") as caught:
        launch(engine_for(aws))
    assert str(caught.value).count("InsufficientInstanceCapacity") == 8
    assert aws.left_over(REPOSITORY) == []


def test_a_fault_that_may_have_made_one_asks_no_other_place(aws: Cloud) -> None:
    aws.faults["us-east-1"] = ("InternalError", "An internal error has occurred")
    with pytest.raises(UserError, match="InternalError") as caught:
        launch(engine_for(aws))
    assert not isinstance(caught.value, OutOfCapacity)
    assert len({asked["ClientToken"] for asked in aws.requests}) == 1


def test_a_missing_right_is_one_line_with_its_remedy(aws: Cloud) -> None:
    aws.faults["us-east-1"] = ("UnauthorizedOperation", "You are not authorized to perform this operation.")
    with pytest.raises(UserError, match="lists the rights that the role needs"):
        launch(engine_for(aws))


def test_the_same_lease_twice_is_one_machine(aws: Cloud) -> None:
    held = lease()
    first = launch(engine_for(aws), held)
    again = engine_for(aws).launch(held, DEMANDS[0], Configured(configuration="other"))
    assert (again.id, len(aws.instances(REPOSITORY))) == (first.id, 1)
    aws.instances(REPOSITORY)[0].terminate()
    with pytest.raises(UserError, match="made before and has ended"):
        engine_for(aws).launch(held, DEMANDS[0], Configured(configuration="other"))


def test_find_shows_what_is_ours_and_says_where_it_could_not_look(aws: Cloud) -> None:
    engine = engine_for(aws)
    launch(engine)
    engine.launch(Lease("ec2", "owner/others", "7", 1, "box-001", later(hours=1)()), DEMANDS[0], Configured())
    (mine,) = engine.find(Scope(REPOSITORY)).machines
    assert mine.lease.repository == REPOSITORY and mine.usd_per_hour == 1.006
    assert mine.started is not None and abs((mine.started - datetime.now(UTC)).total_seconds()) < 300
    assert not engine.find(Scope(REPOSITORY, "8")).machines
    nowhere = Ec2Engine(
        options_for(aws, also_sweep=["xx-nowhere-1"]),
        connect=lambda region: checked_client(region) if region in REGIONS else unreachable(region),
    )
    found = nowhere.find(Scope(REPOSITORY))
    assert len(found.machines) == 1 and found.faults[0].startswith("EC2 in xx-nowhere-1: EndpointConnectionError")


def unreachable(region: str) -> Any:
    import boto3
    from botocore.config import Config

    once = Config(retries={"total_max_attempts": 1}, connect_timeout=1)
    return boto3.client("ec2", region_name=region, endpoint_url="http://127.0.0.1:9", config=once)


def test_release_ends_the_rest_where_one_is_gone_or_refuses(aws: Cloud) -> None:
    engine = engine_for(aws, spot="only")
    made = [launch(engine, lease(f"box-00{number}")) for number in (1, 2, 3)]
    protected = next(it for it in aws.instances(REPOSITORY) if made[1].id.endswith(it.id))
    protected.disable_api_termination = True
    gone = Machine("us-east-1/i-00000000000000000", made[0].lease, "running", place="us-east-1")
    released = engine.release([*engine.find(Scope(REPOSITORY)).machines, gone])
    assert len(released.faults) == 1 and f"machine {made[1].id}: OperationNotPermitted" in released.faults[0]
    assert [it.id for it in aws.instances(REPOSITORY)] == [protected.id]
    protected.disable_api_termination = False
    engine.release(engine.find(Scope(REPOSITORY)).machines)
    assert aws.left_over(REPOSITORY) == []


def test_a_disk_that_stayed_is_found_and_deleted(aws: Cloud) -> None:
    held = lease()
    pairs = [{"Key": key, "Value": value} for key, value in held.tags().items()]
    wanted = [{"ResourceType": "volume", "Tags": pairs}]
    client("us-west-2").create_volume(AvailabilityZone="us-west-2a", Size=8, TagSpecifications=wanted)
    engine = engine_for(aws)
    (disk,) = engine.find(Scope(REPOSITORY)).machines
    assert (disk.kind, disk.place) == ("volume", "us-west-2")
    engine.release([disk])
    assert aws.left_over(REPOSITORY) == []


def test_the_quote_is_the_most_expensive_place(aws: Cloud) -> None:
    quotes = engine_for(aws).quote(DEMANDS)
    assert [(it.kind, it.usd_per_hour, it.usd) for it in quotes] == [("g5.xlarge in us-west-2", 1.006, 2.012)] * 2
    assert quotes[0].source == "list of 2026-11-23"
    own = {"machines": {"box": {"types": ["g5.xlarge"], "usd_per_hour": 1.5}}}
    assert engine_for(aws, **own).quote(DEMANDS)[0].usd_per_hour == 1.5


def test_a_price_that_is_not_known_is_asked_for(aws: Cloud) -> None:
    with pytest.raises(UserError, match=r"the price of p9.large in us-east-1 is not known"):
        engine_for(aws, machines={"box": {"types": ["p9.large"]}}).quote(DEMANDS)
    with pytest.raises(UserError, match=r"machine class 'gpu' of the plan is not in `ec2.machines`"):
        engine_for(aws).quote([Demand("gpu-001", "gpu", 4, 16_000, 1, 2.0)])


def test_a_spot_machine_cannot_cost_more_than_was_quoted(aws: Cloud) -> None:
    class Priced:
        def describe_spot_price_history(self, **asked: Any) -> dict[str, Any]:
            return {"SpotPriceHistory": [{"SpotPrice": "0.30"}, {"SpotPrice": "0.40"}]}

        def __getattr__(self, name: str) -> Any:
            return getattr(checked_client("us-east-1"), name)

    options = options_for(aws, spot="only")
    engine = Ec2Engine(options, connect=lambda region: Priced())
    (quote,) = engine.quote(DEMANDS[:1])
    assert quote.usd_per_hour == pytest.approx(0.48) and quote.source.startswith("spot at ")
    launch(engine)
    assert aws.requests[-1]["InstanceMarketOptions.SpotOptions.MaxPrice"] == "0.480000"


class NoRegistry:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"GitHub was asked: {name}")


def test_nothing_is_asked_for_beyond_the_budget(aws: Cloud, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"2 machines can cost up to 4.02 USD, and the budget is 4.00 USD"):
        provision_all(
            engine_for(aws),
            Run("ec2", REPOSITORY, "7", 1),
            DEMANDS,
            budget_usd=4.0,
            registry=NoRegistry(),
            leases=tmp_path / "leases",
        )
    assert not aws.requests and not (tmp_path / "leases").exists()
