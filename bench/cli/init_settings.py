"""What `ml-dev-bench init` is told, and what a release says of itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bench.base.model import Model

_Plain = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$", max_length=200)]
_Secret = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=100)]


class Settings(Model):
    """The content of .github/mldb/init.yaml."""

    agent: _Plain = "mldb-agent.yml"
    """Path below the repository's root."""
    branch: _Plain = "main"
    cron: Annotated[str, Field(pattern=r"^[0-9*,/ -]+$", max_length=60)] = "23 2 * * *"
    control: str = Field("", pattern=r"^[a-z0-9_-]*$")
    """Id of the agent in nightly.yaml that tells a moved model from a moved agent; empty: none."""
    keys: list[_Secret] = []
    engine: Literal["label", "ec2"] = "label"
    """Where the machines of the night come from."""
    region: str = Field("us-east-1", pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")
    budget_usd: float = Field(20.0, gt=0)


class Release(Model):
    """What release.yml writes beside the templates: the commit that a release is."""

    version: str = Field(pattern=r"^\d+\.\d+\.\d+$")
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
