"""What every part of the stand-in shares: requests, answers, refusals, pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
AT = "2026-11-23T02:00:00Z"


class Refused(Exception):
    """An answer that is not a success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True)
class Request:
    """A request, without the prefix of the API and of the repository."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Json
    url: str
    """As it was asked for, without the query: what links to other pages begin with."""

    def number(self, name: str, default: int) -> int:
        """A number of the query; GitHub takes nonsense for the default."""
        text = self.query.get(name, "")
        return int(text) if text.isdigit() and int(text) else default


@dataclass(frozen=True)
class Answer:
    """A status, a body (JSON, or bytes as they are) and headers."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[..., Answer]
Route = tuple[str, str, Handler]
"""Method, pattern of the path, and what answers: with the request and the groups of the pattern."""


def paged(request: Request, items: Sequence[Json], *, page_size: int = 0, name: str = "") -> Answer:
    """One page of `items`, with links to the others; `name`: of the field that holds them beside `total_count`."""
    size = page_size or min(request.number("per_page", 30), 100)
    page = request.number("page", 1)
    chosen = list(items[(page - 1) * size : page * size])
    last = max(1, -(-len(items) // size))
    others = "".join(f"{key}={value}&" for key, value in request.query.items() if key != "page")
    links = {"next": page + 1, "last": last} if page < last else {}
    links |= {"prev": page - 1, "first": 1} if page > 1 else {}
    header = ", ".join(f'<{request.url}?{others}page={number}>; rel="{rel}"' for rel, number in links.items())
    body: Any = {"total_count": len(items), name: chosen} if name else chosen
    return Answer(200, body, {"Link": header} if header else {})


def find_route(routes: Sequence[Route], request: Request) -> Answer:
    """What the first route that fits answers; raises `Refused` where there is none."""
    for method, pattern, handler in routes:
        if method == request.method and (match := re.fullmatch(pattern, request.path)):
            return handler(request, *match.groups())
    raise Refused(404, "Not Found")


def required(body: Json, *names: str) -> None:
    """Refuse a body that lacks one of these fields, as GitHub's validation does."""
    if missing := [name for name in names if not isinstance(body.get(name), str) or not body[name]]:
        raise Refused(422, f"Invalid request. {', '.join(missing)} wasn't supplied.")
