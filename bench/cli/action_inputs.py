"""What the verbs of `ml-dev-bench action` share: inputs in `MLDB_` variables, annotations, the caller's repository."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field

from bench.base.errors import EXIT_USAGE, UserError
from bench.base.model import Model, ModelT, validate
from bench.formats.record import Profile
from bench.github import annotate_error
from bench.guest.first_process import end_descendants
from bench.guest.kernel import PR_SET_CHILD_SUBREAPER, Kernel

if TYPE_CHECKING:
    from bench.plan import Request

KEEP_LOCAL = "none"
"""The results repository that is none: records stay on this machine."""


def _words(value: object) -> object:
    if not isinstance(value, str):
        return value
    return [word.strip() for word in re.split(r"[,\n]", value) if word.strip()]


Words = Annotated[list[str], BeforeValidator(_words)]
"""Words separated by commas or line breaks."""


class _Destination(Model):
    """Where records and pages go."""

    results_repository: str = Field("", alias="results-repository")
    results_branch: str = Field("mldb-results", alias="results-branch")
    site: str = ""


class _Demands(Model):
    """What must be so for the job to succeed."""

    require_success: bool = Field(False, alias="require-success")
    fail_on_lost: bool = Field(True, alias="fail-on-lost")


class _Asked(Model):
    """Which cells are asked for."""

    agent: Words = []
    base: str = ""
    suite: str = "smoke"
    cases: Words = []
    models: Words = []
    trials: int | None = Field(None, ge=1, le=1000)
    profile: Profile | None = None

    def request(self) -> Request:
        from bench.plan import Request

        return Request(self.suite, self.agent, self.cases, self.models, self.trials, self.profile)


class Wanted(_Asked):
    """What the installing step is told; without an agent and a plan there is nothing to infer."""

    plan: Path | None = None
    shard: str = ""
    experiment: Path | None = None
    site: str = ""


class Inputs(_Asked, _Destination, _Demands):
    """The inputs of the action, under their own names."""

    agent: Words = Field(min_length=1)
    until_decided: bool = Field(False, alias="until-decided")
    max_run_cost: float | None = Field(None, ge=0, alias="max-run-cost")
    max_run_minutes: float | None = Field(None, ge=0, alias="max-run-minutes")
    jobs: int = Field(1, ge=1, le=256)
    sandbox: Literal["auto", "docker", "bubblewrap", "process"] = "auto"


class Outcome(_Demands):
    """What the last step is told."""

    records: Path
    commit: str = ""
    site: str = ""


class Publication(_Destination):
    """What the committing step is told."""

    records: Path


def annotated(step: Callable[[], None]) -> Callable[[], None]:
    """A user's mistake becomes an annotation of the job."""

    @wraps(step)
    def guarded() -> None:
        try:
            step()
        except UserError as error:
            annotate_error(f"{error}{_where_to_put(getattr(error, 'variables', []))}")
            sys.exit(EXIT_USAGE)

    return guarded


def _where_to_put(variables: Sequence[str]) -> str:
    """Where in a workflow the keys belong that are missing."""
    if not variables:
        return ""
    lines = ", ".join(f"{name}: ${{{{ secrets.{name} }}}}" for name in variables)
    return f"; in the workflow: add `env: {{ {lines} }}` to this step (pull requests of forks have no secrets)"


def read_inputs(model: type[ModelT]) -> ModelT:
    """The variables of a step as a validated model; an empty one is one that was not given."""
    names = [field.alias or name for name, field in model.model_fields.items()]
    given = {name: os.environ.get(f"MLDB_{name.upper().replace('-', '_')}", "") for name in names}
    for name, value in given.items():
        # Bytes that are not UTF-8 arrive as surrogates, which no file or page could hold.
        if not value.isascii() and value.encode("utf-8", "replace").decode() != value:
            raise UserError(f"field `{name}`: is not UTF-8", where="action inputs", remedy="write the value in UTF-8")
    return validate({name: value for name, value in given.items() if value.strip()}, model, where="action inputs")


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """Adopt every process that loses its parent, and end all of them at last: the next step holds a token.

    A sandbox ends what it has started. This is for what gets out of one, or of none.
    """
    Kernel().prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        end_descendants()


def own_repository() -> str:
    return f"{runner_variable('GITHUB_SERVER_URL')}/{runner_variable('GITHUB_REPOSITORY')}"


def use_token(token: str, repository: str) -> None:
    """Let git send the token to this GitHub server only; it is never part of an address or of a file."""
    server = os.environ.get("GITHUB_SERVER_URL", "")
    if not token or not server or not repository.startswith(f"{server}/"):
        return
    # Through variables, which no other process can read from a command line; after those that are set already.
    count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    secret = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    os.environ[f"GIT_CONFIG_KEY_{count}"] = f"http.{server}/.extraheader"
    os.environ[f"GIT_CONFIG_VALUE_{count}"] = f"AUTHORIZATION: basic {secret}"
    os.environ["GIT_CONFIG_COUNT"] = str(count + 1)


def runner_variable(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise UserError("is not set", where=name, remedy="call this command from a job of GitHub Actions only")
    return value
