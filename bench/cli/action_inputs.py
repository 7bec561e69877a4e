"""What the verbs of `ml-dev-bench action` share: inputs in `MLDB_` variables, annotations, the caller's repository."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Annotated

from pydantic import BeforeValidator

from bench.base.errors import EXIT_USAGE, UserError
from bench.base.model import ModelT, validate
from bench.github import annotate_error
from bench.guest.first_process import end_descendants
from bench.guest.kernel import PR_SET_CHILD_SUBREAPER, Kernel

KEEP_LOCAL = "none"
"""The results repository that is none: records stay on this machine."""


def _words(value: object) -> object:
    if not isinstance(value, str):
        return value
    return [word.strip() for word in re.split(r"[,\n]", value) if word.strip()]


Words = Annotated[list[str], BeforeValidator(_words)]
"""Words separated by commas or line breaks."""


def annotated(step: Callable[[], None]) -> Callable[[], None]:
    """A user's mistake becomes an annotation of the job."""

    @wraps(step)
    def guarded() -> None:
        try:
            step()
        except UserError as error:
            annotate_error(str(error))
            sys.exit(EXIT_USAGE)

    return guarded


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
