"""Whether a model could be served, asked before any cell: its key, its price, and whether its provider answers.

Nothing that is asked here costs anything: a provider is asked for what it knows of the model, never for an answer.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

from bench.base.errors import UserError
from bench.gateway.backends.providers import find_role
from bench.gateway.backends.refusals import is_of_account
from bench.gateway.config import Role
from bench.gateway.prices import check_price_limit, check_search

_ANSWER_S = 10.0
_WAITS_S = (0.5, 2.0)
"""Before the second and the third try to reach a provider."""
_LIBRARY_S = 120.0
"""litellm takes seconds to be imported, on a busy machine many."""
_PUBLIC = ("api.openai.com", "api.anthropic.com")
"""Hosts whose 404 means that the model does not exist; others need not know the question."""
_QUESTION = (
    "import json, sys, litellm; told = litellm.validate_environment(sys.argv[1]);"
    "print(json.dumps(told['missing_keys'] if not told['keys_in_environment'] else []))"
)
_RESTRICTED = re.compile("scope|permission", re.IGNORECASE)
_OTHER_WAYS = frozenset({"azure", "azure_ai", "bedrock", "sagemaker", "vertex_ai"})
"""litellm's prefixes of providers that also know roles and identities of a machine, which no variable shows."""


def check_model(
    model: str,
    role: str,
    case: str,
    *,
    cassettes: Path | None,
    own_prices: Path | None,
    max_cost_usd: float | None,
    environment: Mapping[str, str],
    network: bool,
    ask: bool = True,
) -> None:
    """Raise `UserError` when `model` cannot be served; ask: also ask its provider, which takes ten seconds at most.

    network: the case allows one.
    """
    found = find_role(model, role, case, cassettes, own_prices, environment)
    check_search(model, network)
    check_price_limit(model, found.prices, max_cost_usd)
    if found.provider is not None and ask:
        _ask_provider(found)
    elif found.litellm and found.provider is None and (variable := _missing_key(model, environment)):
        raise UserError(
            f"model {model!r} needs {variable}, which is not set",
            remedy="set it, or use a replay/ model",
            variable=variable,
        )


def _ask_provider(role: Role) -> None:
    assert role.provider is not None
    address, host = role.provider.url, urlsplit(role.provider.url).hostname or ""
    status, text = _answer(role.model, f"{address}/models/{quote(role.name, safe='')}", role.provider.headers)
    # A key may be good for answers and not for this question.
    if (status == 401 and not _RESTRICTED.search(text)) or (status == 400 and is_of_account(text)):
        raise UserError(
            f"the provider of model {role.model!r} at {address} refuses the key (status {status})",
            remedy="set a key that is valid",
        )
    if status == 404 and host in _PUBLIC:
        raise UserError(f"the provider at {address} does not know the model {role.name!r}", remedy="correct its name")


def _answer(model: str, address: str, headers: Mapping[str, str]) -> tuple[int, str]:
    """Status and text of what is at `address`; 0 where something is there that does not understand the question."""
    import httpx

    for wait in (*_WAITS_S, None):
        try:
            with httpx.Client(verify=ssl.create_default_context(), timeout=_ANSWER_S) as client:
                answer = client.get(address, headers={**headers, "anthropic-version": "2023-06-01"})
                return answer.status_code, answer.text
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.InvalidURL, ValueError) as error:
            if wait is None:
                raise UserError(
                    f"the provider of model {model!r} at {address.partition('/models/')[0]} does not answer"
                    f" ({type(error).__name__})",
                    remedy="correct the address, or try again when it can be reached",
                ) from None
            time.sleep(wait)
        except httpx.HTTPError:
            # Whether it serves agents shows later.
            return 0, ""
    raise AssertionError


def _missing_key(model: str, environment: Mapping[str, str]) -> str:
    """The key that litellm looks for and does not find; empty where there may be another way in."""
    if model.partition("/")[0] in _OTHER_WAYS:
        return ""
    env = {**environment, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _QUESTION, model],
            env=env, cwd=os.sep, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIBRARY_S, check=False,
        )  # fmt: skip
        missing = json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        # litellm is broken, which the gateway tells better.
        return ""
    keys = [it for it in missing if isinstance(it, str) and it.endswith("_API_KEY")]
    # Of several names for one key that of the provider itself.
    own = f"{model.partition('/')[0].upper()}_API_KEY"
    return own if own in keys else next(iter(keys), "")
