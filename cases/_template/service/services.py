"""A shop whose stock differs for each trial, and for the judge: an answer that was seen once is of no use again."""

from __future__ import annotations

import random
from typing import Any

from bench.casekit.services import Request, Response, Service, record_calls

PAGES = 4


@record_calls  # each request stands in the journal, which the agent cannot reach; check.py reads it
def shop(request: Request, service: Service) -> Response:
    """Answers one request: a page of the stock, or 503 for the first request of some pages."""
    if request.method != "GET" or request.path != "/items":
        return Response.json({"error": "ask for GET /items?page=1"}, 404)
    with service.lock:
        stock, busy = _stock(service), service.state["busy"]
        page = request.query.get("page", ["1"])[0]
        if page not in stock:
            return Response.json({"error": "no such page"}, 404)
        if page in busy:
            busy.remove(page)
            return Response.json({"error": "busy, ask again"}, 503)
        after = int(page) + 1
        return Response.json({"items": stock[page], "next": after if after <= PAGES else None})


def _stock(service: Service) -> dict[str, list[dict[str, Any]]]:
    """The pages, made at the first request; what they come to is written down for the judge."""
    if "stock" not in service.state:
        # Of the trial's seed and the phase: the agent may look at its own stock, and never at the judge's.
        rng = random.Random(f"{service.seed} {service.phase}")
        names = [f"item {number}" for number in rng.sample(range(10_000), 60)]
        items = [{"name": name, "price": rng.randint(1, 9_999), "quantity": rng.randint(0, 40)} for name in names]
        # Pages of unequal length, one of them empty: a program that stops at the first short page is wrong.
        cuts = sorted(rng.sample(range(1, 60), PAGES - 2))
        parts = [items[low:high] for low, high in zip([0, *cuts], [*cuts, 60], strict=True)]
        parts.insert(rng.randint(1, PAGES - 2), [])
        service.state["stock"] = {str(number): part for number, part in enumerate(parts, 1)}
        service.state["busy"] = set(rng.sample([str(number) for number in range(1, PAGES + 1)], 2))
        value = sum(item["price"] * item["quantity"] for item in items)
        service.journal({"event": "stock", "items": len(items), "value": value})
    pages: dict[str, list[dict[str, Any]]] = service.state["stock"]
    return pages
