"""The head of a request: which path and protocol it asks for, and with which keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import parse_qs

from bench.gateway.google import Target, find_target
from bench.gateway.request import ROUTES, Dialect


@dataclass(frozen=True)
class Asked:
    """The head of a request."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""

    @property
    def plain(self) -> str:
        """The path without its query, which may hold a key."""
        return self.path.partition("?")[0]

    @property
    def google(self) -> bool:
        """Whether it is asked as Google's clients ask."""
        return self.plain.startswith(("/v1beta/", "/v1alpha/")) or "x-goog-api-key" in self.headers

    @property
    def route(self) -> str:
        path = self.plain.rstrip("/")
        for version in ("/v1beta", "/v1alpha", "/v1"):
            if path.startswith(f"{version}/"):
                return path.removeprefix(version)
        return path

    @cached_property
    def target(self) -> Target | None:
        return find_target(self.path)

    @property
    def dialect(self) -> Dialect | None:
        if self.target is not None:
            return "generate" if self.target.method == "generate" else "count_generate"
        return ROUTES.get(self.route)

    @property
    def tokens(self) -> list[str]:
        """All that may be the key: some clients send another one, of the environment, beside it."""
        scheme, _, bearer = self.headers.get("authorization", "").partition(" ")
        found = [bearer.strip()] if scheme.lower() == "bearer" else []
        found += [self.headers.get("x-api-key", ""), self.headers.get("x-goog-api-key", "")]
        return [*found, *parse_qs(self.path.partition("?")[2]).get("key", [])[:1]]

    @property
    def spelling(self) -> Dialect | None:
        """In which protocol a refusal is read."""
        if self.dialect is None and self.google:
            return "generate"
        return self.dialect or ("messages" if "anthropic-version" in self.headers else None)
