"""The optional secret in the seeds of the data: without it, whoever knows a case can compute its data beforehand."""

from __future__ import annotations

import hmac
import os

from bench.errors import UserError

VARIABLE = "MLDB_SEED_SECRET"
_SHORTEST = 16


def seed_secret() -> bytes:
    """The secret in the runner's environment; empty without one. Raises `UserError` for one that can be guessed."""
    secret = os.environ.get(VARIABLE, "").encode("utf-8", "surrogateescape")
    if 0 < len(secret) < _SHORTEST:
        raise UserError(
            f"has {len(secret)} bytes, and {_SHORTEST} are the fewest", where=VARIABLE, remedy="openssl rand -hex 32"
        )
    return secret


def fingerprint(secret: bytes) -> str:
    """What may be known of a secret: that two runs had the same. Empty without one."""
    return hmac.digest(secret, b"ml-dev-bench seed secret", "sha256").hex()[:16] if secret else ""


def require_same(secret: bytes, known: str) -> None:
    """Raise `UserError` unless `secret` is the one of which `known` is the fingerprint."""
    if fingerprint(secret) != known:
        raise UserError(
            "is not what the run began with"
            if secret and known
            else "is set now, and was not"
            if secret
            else "is gone",
            where=VARIABLE,
            remedy="resume with the secret that the run began with" if known else "resume without it",
        )
