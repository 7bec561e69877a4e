"""Clients of AWS, and their errors as this project's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

from bench.base.errors import UserError

_ATTEMPTS = 5


class Clients(Protocol):
    """Gives a client of boto3 for a service and a region."""

    def __call__(self, service: str, region: str, *, attempts: int = _ATTEMPTS) -> Any: ...


def aws_client(service: str, region: str, *, attempts: int = _ATTEMPTS) -> Any:
    """A client that repeats what failed by itself up to `attempts` times; raises `UserError` without boto3."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise UserError("needs boto3", where=service, remedy="pip install 'ml-dev-bench[aws]'") from None
    config = Config(connect_timeout=10, read_timeout=60, retries={"mode": "standard", "total_max_attempts": attempts})
    return boto3.client(service, region_name=region, config=config)


@contextlib.contextmanager
def aws_errors(where: str) -> Iterator[None]:
    """What AWS or the way to it refuses, as `UserError`."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        said = error.response.get("Error", {})
        fault = f"{error.operation_name}: {said.get('Code', '')}: {said.get('Message', '')}"
        raise UserError(fault, where=where, remedy="check region, names and the role's policy") from None
    except BotoCoreError as error:
        fault = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UserError(fault, where=where, remedy="check the credentials and the network") from None
