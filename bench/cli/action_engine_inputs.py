"""What `provision`, `release` and `sweep` are told: their inputs, and the right to register runners."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from bench.base.errors import UserError
from bench.base.model import Model
from bench.cli.action_shards import PlanDigest

if TYPE_CHECKING:
    from bench.github import AppKey
    from bench.machines import MachineSettings


class EngineInputs(Model):
    engine: Literal["label", "local", "ec2", "batch", "sky"] = "label"
    machines: Path | None = None
    """The machines file."""

    @property
    def makes_machines(self) -> bool:
        return self.engine not in ("label", "local")

    def settings(self) -> MachineSettings:
        from bench.machines import read_settings

        if self.machines is None:
            raise UserError(
                f"field `machines`: engine {self.engine} needs it",
                where="action inputs",
                remedy="name the machines file (docs/machines.md)",
            )
        return read_settings(self.machines)


class ProvisionInputs(EngineInputs):
    """What is to be made."""

    plan: Path
    plan_digest: PlanDigest = Field("", alias="plan-digest")
    single_use: bool = Field(False, alias="single-use")
    budget_usd: float | None = Field(None, ge=0, alias="budget-usd")
    matrix: str = ""
    """The output of the planning step."""

    def matrix_for(self, labels: Mapping[str, Sequence[str]]) -> str:
        """The matrix with what `runs-on` of each shard asks for; raises `UserError`."""
        try:
            entries = json.loads(self.matrix)["include"]
            made = [{**entry, "labels": labels[entry["shard"]]} for entry in entries]
        except (ValueError, KeyError, TypeError):
            remedy = "pass the output `matrix` of the step that made this plan"
            raise UserError("field `matrix`: is not of this plan", where="action inputs", remedy=remedy) from None
        return json.dumps({"include": made}, separators=(",", ":"))


class ReleaseInputs(EngineInputs):
    """Whose machines are to end: those of this workflow run."""

    plan: Path | None = None
    plan_digest: PlanDigest = Field("", alias="plan-digest")


class SweepInputs(EngineInputs):
    """How long the two looks are apart."""

    pause_s: float = Field(120.0, ge=0, le=1200, alias="pause-seconds")


def take_credential() -> str | AppKey | None:
    """The right to register runners, out of the environment: nothing that this step starts may inherit it."""
    token = os.environ.pop("MLDB_RUNNER_TOKEN", "").strip()
    app, key = os.environ.pop("MLDB_APP_ID", "").strip(), os.environ.pop("MLDB_APP_KEY", "").strip()
    if app and key:
        from bench.github import AppKey

        return AppKey(app, key)
    return token or None
