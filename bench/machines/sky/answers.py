"""What is read of the answers of SkyPilot's API server."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, TypeAdapter


class _Answer(BaseModel):
    """What is read of an answer: servers add fields at any time."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Cluster(_Answer):
    """A cluster that the server knows."""

    name: str
    status: str
    """INIT, UP, STOPPED or AUTOSTOPPING."""
    launched_at: int | None = None
    """Unix seconds."""
    autostop: int = -1
    """Minutes without a job after which it is stopped, or deleted; negative: never."""
    to_down: bool = False
    """Whether it is deleted then."""
    labels: dict[str, str] = {}


class KeptRequest(_Answer):
    """A request that the server keeps."""

    request_id: str
    name: str
    status: str
    cluster_name: str | None = None
    request_body: str | None = None
    return_value: str = "null"
    error: str | None = None


class Health(_Answer):
    api_version: int
    version: str = ""


class SkyFault(_Answer):
    type: str = ""
    message: str = ""


class Launch(_Answer):
    task: str


CLUSTERS = TypeAdapter(list[Cluster])
REQUESTS = TypeAdapter(list[KeptRequest])
