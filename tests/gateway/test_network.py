"""The way to a provider: certificate authorities, proxies, and what is said where there is none."""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from bench.base.errors import InfraError, UserError
from bench.formats.model_usage import ModelUsage
from bench.gateway.backends.providers import find_role
from tests.helpers.connect_proxy import ConnectProxy
from tests.helpers.gateway_live import CANARY, QUICK, live
from tests.helpers.provider import Reply, ScriptedUpstream, Usage

GOOD = Reply("hello", usage=Usage(1000, 50))
HOST = "provider.test"
"""Nothing but a proxy knows its address."""


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path) -> dict[str, str]:
    """The environment that makes the system's libraries trust the private authority."""
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    return {"SSL_CERT_FILE": str(tmp_path / "authority.pem")}


def secured(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    return context


@pytest.fixture
def upstream(authority: trustme.CA) -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream([GOOD, GOOD], tls=secured(authority, "localhost"), host="localhost") as started:
        yield started


@pytest.fixture
def hidden(authority: trustme.CA) -> Iterator[ScriptedUpstream]:
    """To be reached through a proxy alone."""
    with ScriptedUpstream([GOOD, GOOD], tls=secured(authority, HOST), host=HOST) as started:
        yield started


def ask(
    folder: Path, upstream: ScriptedUpstream, environment: dict[str, str], **changes: Any
) -> tuple[str, ModelUsage]:
    """What a client is told, and what was counted."""
    facts = {"environment": {**upstream.environment(), "PATH": "/usr/bin:/bin", **environment}, **changes}
    with live(folder, upstream, **facts) as through:
        told = through.post("chat", stream=True).text
        again = through.post("chat").text if "hello" in told else ""
        assert bool(again) == ("hello" in again)
        return told, through.gateway.state().usage[0]


def unreached(told: str, usage: ModelUsage, upstream: ScriptedUpstream) -> bool:
    """Whether nothing was asked and nothing is at risk."""
    tries = usage.faults == {"unreachable": QUICK.tries}
    return "cannot be reached" in told and tries and not usage.at_risk_usd and not upstream.requests


# --- certificate authorities ------------------------------------------------------------------------------------------


def test_a_private_authority_is_trusted_when_the_system_is_told(
    tmp_path: Path, upstream: ScriptedUpstream, trusted: dict[str, str]
) -> None:
    told, usage = ask(tmp_path, upstream, trusted)
    assert ("hello" in told, usage.calls, usage.faults) == (True, 2, {})


def test_a_private_authority_is_refused_otherwise(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    told, usage = ask(tmp_path, upstream, {})
    assert unreached(told, usage, upstream)
    assert "CERTIFICATE_VERIFY_FAILED" in told


def test_a_certificate_of_another_name_is_refused(
    tmp_path: Path, authority: trustme.CA, trusted: dict[str, str]
) -> None:
    with ScriptedUpstream([GOOD], tls=secured(authority, HOST), host="localhost") as impostor:
        told, usage = ask(tmp_path, impostor, trusted)
    assert unreached(told, usage, impostor)
    assert "mismatch" in told


# --- proxies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("litellm", [True, False])
def test_a_tunnel_through_a_proxy_with_login(
    tmp_path: Path,
    hidden: ScriptedUpstream,
    trusted: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    litellm: bool,
) -> None:
    if not litellm:
        # Then the gateway gets the few variables alone that it needs.
        monkeypatch.setitem(sys.modules, "litellm", None)
    with ConnectProxy(login="user:pass@word") as proxy:
        told, usage = ask(tmp_path, hidden, {**trusted, name: proxy.url("user:pass%40word")})
    assert ("hello" in told, usage.calls, usage.faults) == (True, 2, {})
    port = hidden.url.rpartition(":")[2]
    assert [head.split(b"\r\n")[0] for head in proxy.heads] == [f"CONNECT {HOST}:{port} HTTP/1.1".encode()]
    assert CANARY not in str(proxy.heads)


@pytest.mark.parametrize("login", ["", "user:wrong"])
def test_a_proxy_that_refuses_the_login_puts_nothing_at_risk(
    tmp_path: Path, hidden: ScriptedUpstream, trusted: dict[str, str], login: str
) -> None:
    with ConnectProxy(login="user:right") as proxy:
        told, usage = ask(tmp_path, hidden, {**trusted, "HTTPS_PROXY": proxy.url(login)})
    assert unreached(told, usage, hidden)
    assert "407" in told


def test_a_proxy_that_never_answers_is_waited_for_as_long_as_for_a_connection(
    tmp_path: Path, hidden: ScriptedUpstream, trusted: dict[str, str]
) -> None:
    hasty = QUICK.model_copy(update={"connect_s": 0.3, "answer_s": 60.0, "probe_s": 1.0})
    with ConnectProxy(silent=True) as proxy:
        told, usage = ask(tmp_path, hidden, {**trusted, "HTTPS_PROXY": proxy.url()}, patience=hasty)
    assert unreached(told, usage, hidden)
    assert len(proxy.heads) > QUICK.tries, "and the probes after them"


@pytest.mark.parametrize("exempt", ["localhost", "other.test,localhost", "*"])
def test_what_no_proxy_names_is_reached_directly(
    tmp_path: Path, upstream: ScriptedUpstream, trusted: dict[str, str], exempt: str
) -> None:
    with ConnectProxy() as proxy:
        told, usage = ask(tmp_path, upstream, {**trusted, "HTTPS_PROXY": proxy.url(), "NO_PROXY": exempt})
    assert ("hello" in told, usage.calls, proxy.heads) == (True, 2, [])


def test_a_plain_address_is_not_sent_through_the_proxy_for_https(tmp_path: Path) -> None:
    with ScriptedUpstream([GOOD, GOOD]) as plain, ConnectProxy() as proxy:
        told, usage = ask(tmp_path, plain, {"HTTPS_PROXY": proxy.url()})
    assert ("hello" in told, usage.calls, proxy.heads) == (True, 2, [])


def test_a_plain_address_has_a_proxy_of_its_own(tmp_path: Path) -> None:
    with ScriptedUpstream([GOOD], host=HOST) as plain, ConnectProxy() as proxy:
        environment = {**plain.environment(), "PATH": "/usr/bin:/bin", "HTTP_PROXY": proxy.url()}
        with live(tmp_path, plain, environment=environment) as through:
            assert "hello" in through.post("chat").text
    assert proxy.heads[0].startswith(f"POST {plain.url}/v1/chat/completions HTTP/1.1\r\n".encode())


@pytest.mark.parametrize(
    ("name", "value"), [("NO_PROXY", "[::1]"), ("HTTPS_PROXY", "ftp://proxy.test"), ("ALL_PROXY", "socks9://x")]
)
def test_a_proxy_that_cannot_be_used_is_named_in_one_line(tmp_path: Path, name: str, value: str) -> None:
    with ScriptedUpstream([]) as upstream, pytest.raises(InfraError) as raised:
        ask(tmp_path, upstream, {name: value})
    assert "proxies cannot be used" in str(raised.value) and name in str(raised.value)
    assert "\n" not in str(raised.value)


# --- what must be installed -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "package"), [("openai/x", "httpx"), ("mistral/x", "httpx"), ("mistral/x", "litellm")]
)
def test_a_live_model_without_its_library_is_a_user_error(
    monkeypatch: pytest.MonkeyPatch, model: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        UserError, match=rf"through {package}, which is not installed.*pip install 'ml-dev-bench\[gatew"
    ):
        find_role(model, "main", "case", None, None, {"OPENAI_API_KEY": CANARY})


def test_a_gateway_that_replays_does_without_them() -> None:
    code = """
import sys
sys.modules["httpx"] = sys.modules["litellm"] = None
import bench.gateway.process
from bench.gateway.backends.replay import TurnBackend
"""
    subprocess.run([sys.executable, "-c", code], check=True)
