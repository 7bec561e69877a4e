"""What an owner says of their AWS Batch: queues, job definitions, prices, and where shards keep their bundles."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import Field, model_validator

from bench.base.model import Model
from bench.formats.record import Name

Mode = Literal["runner", "shard"]
Region = Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")]


class BatchMachine(Model):
    """What serves one machine class of the experiment file: a queue whose machines hold one job each."""

    queue: Annotated[str, Field(min_length=1, max_length=500)]
    """Name or ARN."""
    definition: Annotated[str, Field(pattern=r"^[A-Za-z0-9_:/-]+:[0-9]+$")]
    """NAME:REVISION, or the ARN with it: a name alone would change its meaning with the next revision."""
    usd_per_hour: float = Field(gt=0)
    """Of the instance type, on demand: a spot machine costs at most this."""
    priced: date
    """Day on which the price was looked up."""


class BatchOptions(Model):
    """The field `batch` of the machines file."""

    mode: Mode = "runner"
    """runner: the job is the self-hosted runner of its matrix entry. shard: the job runs the shard by itself."""
    region: Region
    wait_hours: float = Field(2.0, ge=0, le=48)
    """For which a job may wait for its machine; one that starts later ends at once, and is planned again."""
    machines: dict[Name, BatchMachine] = Field(min_length=1)
    """By the names of machine classes."""
    bundles: Annotated[str, Field(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._/-]*)?$")] | None = None
    """Mode shard: where each job has a prefix of its own."""
    runner_released: date | None = None
    """Mode runner: the day on which the version of the runner in the image was released."""

    @model_validator(mode="after")
    def _mode_has_what_it_needs(self) -> BatchOptions:
        if self.mode == "shard" and self.bundles is None:
            raise ValueError("mode shard needs `bundles`, the s3:// prefix of the shards' bundles")
        if self.mode == "runner" and self.runner_released is None:
            raise ValueError("mode runner needs `runner_released`, the release day of the runner in the image")
        return self
