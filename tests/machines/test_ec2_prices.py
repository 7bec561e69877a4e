"""The list of prices is made from AWS's price list, in both forms in which that is published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from bench.base.model import read_json
from bench.machines.ec2.prices import PriceList, shipped_prices
from scripts.ec2_prices import TARGET, WANTED, main

REGIONS = ["us-east-1", "us-west-2"]
PRICES = {("g5.xlarge", "us-east-1"): "1.0060000000", ("g5.xlarge", "us-west-2"): "1.1000000000"}


def attributes(kind: str, region: str, **changes: str) -> dict[str, str]:
    return {**WANTED, "instanceType": kind, "regionCode": region, "vcpu": "4", **changes}


def terms(usd: str) -> dict[str, Any]:
    rate = {"unit": "Hrs", "pricePerUnit": {"USD": usd}, "description": f"${usd} per On Demand Linux Instance Hour"}
    return {"SKU.JRTCKXETXF": {"priceDimensions": {"SKU.JRTCKXETXF.6YS6EN2CT7": rate}, "termAttributes": {}}}


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    path = tmp_path / "prices.json"
    listed = {"date": "2026-01-01", "source": "a test", "regions": REGIONS, "usd_per_hour": {"g5.xlarge": 1.0}}
    path.write_text(json.dumps(listed))
    return path


def stubbed(answers: dict[tuple[str, str], str]) -> tuple[Any, Stubber]:
    """A real client, whose requests and answers botocore compares with its description of the service."""
    client = boto3.client("pricing", "us-east-1", aws_access_key_id="testing", aws_secret_access_key="testing")
    stub = Stubber(client)
    for region in REGIONS:
        asked = {**WANTED, "regionCode": region, "instanceType": "g5.xlarge"}
        filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in asked.items()]
        products = [
            json.dumps({"product": {"attributes": attributes(*key)}, "terms": {"OnDemand": terms(usd)}})
            for key, usd in answers.items()
            if key[1] == region
        ]
        answer = {"FormatVersion": "aws_v1", "PriceList": products}
        stub.add_response("get_products", answer, {"ServiceCode": "AmazonEC2", "Filters": filters})
    stub.activate()
    return client, stub


def test_from_the_service_the_highest_price_of_the_regions(shipped: Path) -> None:
    client, stub = stubbed(PRICES)
    assert main(["--list", str(shipped)], client) == 0
    stub.assert_no_pending_responses()
    made = read_json(shipped, PriceList, remedy="")
    assert made.usd_per_hour == {"g5.xlarge": 1.1} and made.regions == REGIONS
    assert "price-list service" in made.source and "scripts/ec2_prices.py" in made.source


def test_a_check_writes_nothing_and_says_what_differs(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = shipped.read_bytes()
    assert main(["--check", "--list", str(shipped)], stubbed(PRICES)[0]) == 1
    assert "g5.xlarge: 1.0 is listed, and AWS says 1.1" in capsys.readouterr().err
    assert shipped.read_bytes() == before
    assert main(["--check", "--list", str(shipped)], stubbed(dict.fromkeys(PRICES, "1.0"))[0]) == 0


def test_from_offer_files_other_machines_of_the_type_do_not_count(shipped: Path, tmp_path: Path) -> None:
    files = []
    for (kind, region), usd in PRICES.items():
        products = {
            "SKU": {"attributes": attributes(kind, region)},
            "WINDOWS": {"attributes": attributes(kind, region, operatingSystem="Windows")},
            "RESERVED": {"attributes": attributes(kind, region, capacitystatus="AllocatedCapacityReservation")},
            "FREE": {"attributes": attributes("t2.nano", region)},
        }
        priced = {"SKU": terms(usd), "WINDOWS": terms("9.9"), "RESERVED": terms("0.0000000000")}
        files.append(tmp_path / f"{region}.json")
        files[-1].write_text(json.dumps({"products": products, "terms": {"OnDemand": priced, "Reserved": {}}}))
    assert main([*map(str, files), "--list", str(shipped)]) == 0
    assert read_json(shipped, PriceList, remedy="").usd_per_hour == {"g5.xlarge": 1.1}
    before = shipped.read_bytes()
    assert main([str(files[0]), "--list", str(shipped)]) == 1, "a region is missing"
    assert shipped.read_bytes() == before


def test_two_prices_of_one_machine_are_not_guessed_between(
    shipped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    products = {sku: {"attributes": attributes("g5.xlarge", "us-east-1")} for sku in "AB"}
    offer = {"products": products, "terms": {"OnDemand": {"A": terms("1.0"), "B": terms("2.0")}}}
    (tmp_path / "offer.json").write_text(json.dumps(offer))
    assert main([str(tmp_path / "offer.json"), "--list", str(shipped)]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said == ["g5.xlarge in us-east-1 has 2 prices", "g5.xlarge in us-west-2 is not in the price list"]


def test_the_shipped_list_is_the_one_that_the_command_writes() -> None:
    assert json.loads(TARGET.read_text()) == shipped_prices().model_dump()
