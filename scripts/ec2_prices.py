"""What machines of EC2 cost on demand: `bench/machines/ec2/prices.json`, from AWS's own price list.

    python -m scripts.ec2_prices                      ask the price-list service (the right pricing:GetProducts)
    python -m scripts.ec2_prices us-east-1.json ...   read offer files that were downloaded, one a region
    python -m scripts.ec2_prices --check              ask, and compare; status 1 where the shipped list differs

Offer files are public, at https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/REGION/index.json.
Types and regions stay those of the shipped list; a price is the highest of its regions, so that a quote is never too
low. Never run against AWS: the tests compare requests and answers with botocore's description of the service.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "bench" / "machines" / "ec2" / "prices.json"
_SERVED_IN = "us-east-1"
"""The service answers for all regions in a few."""
WANTED = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "licenseModel": "No License required",
}
"""The attributes of a plain machine: there are a dozen prices of each type besides."""


def main(words: Sequence[str] | None = None, client: Any = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("offers", nargs="*", type=Path, metavar="FILE", help="offer files of AmazonEC2")
    parser.add_argument("--check", action="store_true", help="compare with the shipped list, and write nothing")
    parser.add_argument("--list", type=Path, default=TARGET, metavar="FILE", help="the list; default: the shipped one")
    told = parser.parse_args(words)
    shipped = json.loads(told.list.read_text(encoding="utf-8"))
    if told.offers:
        products = [product for path in told.offers for product in in_offer_file(json.loads(path.read_bytes()))]
        source = "AWS's offer files of AmazonEC2, on demand, Linux"
    else:
        products = list(from_service(client or _client(), shipped["regions"], shipped["usd_per_hour"]))
        source = "AWS's price-list service, on demand, Linux"
    prices, faults = price_list(products, shipped["regions"], shipped["usd_per_hour"])
    if told.check:
        known = shipped["usd_per_hour"]
        faults += [
            f"{kind}: {known[kind]} is listed, and AWS says {it}" for kind, it in prices.items() if it != known[kind]
        ]
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return 1
    if not told.check:
        today = datetime.now(UTC).date()
        told.list.write_text(rendered(prices, shipped["regions"], source, today), encoding="utf-8")
    print(f"{len(prices)} prices of {len(shipped['regions'])} regions")
    return 0


def from_service(client: Any, regions: Iterable[str], kinds: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """What the service says of each type in each region."""
    kinds = list(kinds)
    for region in regions:
        for kind in kinds:
            asked = {**WANTED, "regionCode": region, "instanceType": kind}
            filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in asked.items()]
            pages = client.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters)
            for page in pages:
                for text in page["PriceList"]:
                    one = json.loads(text)
                    yield {"attributes": one["product"]["attributes"], "terms": one["terms"].get("OnDemand", {})}


def in_offer_file(offer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The products of an offer file, in the same shape."""
    terms = offer["terms"]["OnDemand"]
    for sku, product in offer["products"].items():
        yield {"attributes": product["attributes"], "terms": terms.get(sku, {})}


def price_list(
    products: Iterable[Mapping[str, Any]], regions: Sequence[str], kinds: Iterable[str]
) -> tuple[dict[str, float], list[str]]:
    """USD an hour by type, the highest of the regions; and what is missing or has two prices, a line each."""
    found: dict[tuple[str, str], set[float]] = {}
    for product in products:
        facts = product["attributes"]
        if all(facts.get(name) == value for name, value in WANTED.items()):
            key = facts.get("instanceType", ""), facts.get("regionCode", "")
            found.setdefault(key, set()).update(_hourly(product["terms"]))
    faults = []
    prices = {}
    for kind in kinds:
        for region in regions:
            known = found.get((kind, region), set())
            if len(known) != 1:
                said = f"has {len(known)} prices" if known else "is not in the price list"
                faults.append(f"{kind} in {region} {said}")
        prices[kind] = max((max(found.get((kind, region), {0.0})) for region in regions), default=0.0)
    return prices, faults


def _hourly(terms: Mapping[str, Any]) -> Iterator[float]:
    for term in terms.values():
        for rate in term["priceDimensions"].values():
            if rate["unit"] == "Hrs" and "USD" in rate["pricePerUnit"] and float(rate["pricePerUnit"]["USD"]) > 0:
                yield float(rate["pricePerUnit"]["USD"])


def rendered(prices: Mapping[str, float], regions: Sequence[str], source: str, day: date) -> str:
    """The list as it is shipped."""
    told = f"{source}: the highest price of the regions, by scripts/ec2_prices.py"
    whole = {"date": day.isoformat(), "source": told, "regions": list(regions), "usd_per_hour": dict(prices)}
    return json.dumps(whole, indent=2) + "\n"


def _client() -> Any:
    import boto3

    return boto3.client("pricing", region_name=_SERVED_IN)


if __name__ == "__main__":
    sys.exit(main())
