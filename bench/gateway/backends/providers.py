"""From a model's name to its provider: address, key, protocols and prices, looked up in the runner's environment."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.base.errors import UserError
from bench.gateway.backends import replay
from bench.gateway.backends.cassettes import load_cassette
from bench.gateway.backends.recorded import load_exchanges
from bench.gateway.backends.scripted import is_scripted, scripted_prices
from bench.gateway.config import Provider, Role
from bench.gateway.media import Family
from bench.gateway.prices import Prices, find_prices
from bench.gateway.request import Dialect

_SECRET_NAME = re.compile(r"(^|_)(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)S?$")
_SHORTEST_SECRET = 12
_PLAIN = re.compile(r"[!-~]+")


@dataclass(frozen=True)
class _Native:
    """A provider whose own protocols are passed through."""

    key: str
    address: str
    public: str
    version: str
    """What its documented address leaves out."""
    dialects: tuple[Dialect, ...]
    header: str = "authorization"
    """That carries the key."""

    def headers(self, secret: str) -> dict[str, str]:
        return {self.header: f"Bearer {secret}" if self.header == "authorization" else secret}


_NATIVE = {
    "openai": _Native(
        "OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1", "", ("chat", "responses", "embeddings")
    ),
    "anthropic": _Native(
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "https://api.anthropic.com",
        "/v1",
        ("messages", "count_tokens"),
        "x-api-key",
    ),
    "gemini": _Native(
        "GEMINI_API_KEY",
        "GOOGLE_GEMINI_BASE_URL",
        "https://generativelanguage.googleapis.com",
        "/v1beta",
        ("generate", "count_generate"),
        "x-goog-api-key",
    ),
}
_FAMILIES: dict[str, Family] = {"azure": "openai"}
"""litellm's prefixes of which it is known by whose rule images are billed."""
_HOSTS: dict[str, Family] = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gemini",
}


def find_role(
    model: str, role: str, case: str, cassettes: Path | None, own_prices: Path | None, environment: Mapping[str, str]
) -> Role:
    """How the calls of `model` are answered; raises `UserError` when they cannot be."""
    if is_scripted(model):
        return Role(model=model, name=model, prices=scripted_prices(), simulated=True)
    if model.startswith(replay.PREFIX):
        return _replayed(model, replay.cassette_path(model, role, case, cassettes))
    prefix, _, name = model.partition("/")
    native = _NATIVE.get(prefix)
    for package in ("httpx",) if native else ("httpx", "litellm"):
        if importlib.util.find_spec(package) is None:
            raise UserError(
                f"model {model!r} is reached through {package}, which is not installed",
                remedy="run pip install 'ml-dev-bench[gateway]', or use a replay/ model",
            )
    prices = find_prices(model, own_prices)
    if native is None:
        return Role(model=model, name=name, prices=prices, litellm=True, family=_FAMILIES.get(prefix, "other"))
    translate = importlib.util.find_spec("litellm") is not None
    provider = _provider(model, native, environment)
    host = urlsplit(provider.url).hostname
    # At any other address anything may answer.
    family = _HOSTS.get(host or "", "other")
    return Role(model=model, name=name, prices=prices, provider=provider, litellm=translate, family=family)


def prices_of_role(model: str, role: str, case: str, cassettes: Path | None, own: Path | None) -> Prices | None:
    """The prices by which the calls of `model` are reckoned; None where there are none. Raises `UserError`."""
    if is_scripted(model):
        return scripted_prices()
    if model.startswith(replay.PREFIX):
        return _replayed(model, replay.cassette_path(model, role, case, cassettes)).prices
    return find_prices(model, own)


def secrets_in(environment: Mapping[str, str]) -> list[str]:
    """Values that must never be written anywhere."""
    return [
        value for name, value in environment.items() if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_SECRET
    ]  # fmt: skip


def _replayed(model: str, path: Path) -> Role:
    if replay.is_recorded(path):
        heading, _ = load_exchanges(path)
        return Role(model=model, name=heading.model, prices=heading.prices, simulated=True, cassette=path)
    cassette = load_cassette(path)
    prices, task = cassette.as_prices(), cassette.task_sha256
    return Role(model=model, name=cassette.model, prices=prices, simulated=True, cassette=path, task_sha256=task)


def _provider(model: str, native: _Native, environment: Mapping[str, str]) -> Provider:
    secret = environment.get(native.key, "")
    if native.key == "GEMINI_API_KEY":
        # Google's own clients and litellm know it by either name.
        secret = secret or environment.get("GOOGLE_API_KEY", "")
    if not secret:
        raise UserError(
            f"model {model!r} needs {native.key}, which is not set",
            remedy="set it, or use a replay/ model",
            variable=native.key,
        )
    if not secret.isascii() or not secret.isprintable():
        raise UserError(f"{native.key} has characters that no key has", remedy="set it anew, without line breaks")
    address = environment.get(native.address) or native.public
    if not _is_address(address):
        raise UserError(
            f"{native.address} ({_shown(address)}) is not an http(s) address",
            remedy="write it as http://HOST:PORT, or unset it for the public one",
        )
    url = address.rstrip("/")
    if native.version and not url.endswith(native.version):
        url += native.version
    return Provider(url=url, headers=native.headers(secret), dialects=list(native.dialects))


def _shown(address: str) -> str:
    """What may be told of an address: neither a login nor what a query holds."""
    return re.sub(r"[^/@\s]*@", "…@", address).partition("?")[0][:100]


def _is_address(text: str) -> bool:
    """Whether `text` is the http(s) address of a server, without login, query or fragment."""
    try:
        parts = urlsplit(text)
        plain = parts.port != 0 and not (parts.query or parts.fragment)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and plain and bool(_PLAIN.fullmatch(text))
