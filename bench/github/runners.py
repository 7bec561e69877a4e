"""Self-hosted runners, registered just in time: one configuration for one machine and one job.

https://docs.github.com/en/rest/actions/self-hosted-runners. Never run against github.com: the tests speak to a stand-in
server over HTTP.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import Field

from bench.base.errors import UserError
from bench.github.rest import API, Answer, GitHubApi, GitHubError, open_api

_TRIES = 5
_FIRST_PAUSE_S = 1.0
_MAY_BE_MADE = (500, 502, 503, 504)
"""Answers of a server that failed: it may have made the record before."""
_RIGHTS = (
    "the token needs `administration: write` of the repository, or `self-hosted runners: write` of the organisation"
)


class Runner(Answer):
    """What is read of a runner's record."""

    id: int = Field(ge=1)
    name: str
    busy: bool
    status: str = "offline"


class _Made(Answer):
    runner: Runner
    encoded_jit_config: str = Field(min_length=1)


class _WorkflowRun(Answer):
    status: str | None
    run_attempt: int = Field(1, ge=1)


@dataclass(frozen=True)
class AppKey:
    """A GitHub App that is installed on the repository or its organisation."""

    id: str
    private_key: str


@dataclass(frozen=True)
class Registered:
    """A runner that GitHub expects."""

    id: int
    name: str
    configuration: str
    """A secret until the runner has used it, once."""


class Runners:
    """The self-hosted runners of a repository or an organisation. Every method raises `UserError`."""

    def __init__(
        self,
        repository: GitHubApi,
        home: GitHubApi,
        *,
        group: int = 1,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._repository = repository
        self._home = home
        self._group = group
        self._wait = wait

    def register(self, name: Callable[[], str], label: str) -> Registered:
        """A runner with this one label.

        name: gives a fresh one for each try, because a record may exist though its answer was lost, and GitHub refuses
        a name twice. What such a try has left is removed.
        """
        tried: list[str] = []
        for number in range(_TRIES):
            if number:
                self._wait(_FIRST_PAUSE_S * 2 ** (number - 1))
            tried.append(name())
            try:
                made = self._generate(tried[-1], label)
            except UserError as error:
                if not _may_be_repeated(error) or number == _TRIES - 1:
                    self._forget(tried)
                    raise
                continue
            if tried[:-1]:
                self._forget(tried[:-1])
            return Registered(made.runner.id, made.runner.name, made.encoded_jit_config)
        raise AssertionError("the last try returns or raises")

    def records(self) -> Sequence[Runner]:
        """All records."""
        return list(self._home.pages(Runner, "/actions/runners", "runners"))

    def remove(self, record: int) -> None:
        """The record is gone after this, and it may have been before."""
        try:
            self._home.delete(f"/actions/runners/{record}")
        except GitHubError as error:
            if error.status != 404:
                raise

    def has_ended(self, run: str, attempt: int) -> bool:
        """Whether the attempt of the workflow run is over."""
        found = self._repository.get(_WorkflowRun, f"/actions/runs/{run}")
        return found.run_attempt > attempt or found.status == "completed"

    def _generate(self, name: str, label: str) -> _Made:
        asked = {"name": name, "runner_group_id": self._group, "labels": [label], "work_folder": "_work"}
        try:
            return self._home.send("POST", _Made, "/actions/runners/generate-jitconfig", asked)
        except GitHubError as error:
            remedy = _REMEDIES.get(error.status, "")
            if not remedy:
                raise
            raise GitHubError(error.status, str(error), where="runner registration", remedy=remedy) from None

    def _forget(self, names: Sequence[str]) -> None:
        """Remove what tries have left; what cannot be looked up is left to the sweep, which knows it by its name."""
        with contextlib.suppress(UserError):
            for record in self.records():
                if record.name in names:
                    self.remove(record.id)


_REMEDIES = {
    403: f"{_RIGHTS}; self-hosted runners must be allowed in its settings, and the runner group be one of its own",
    404: f"{_RIGHTS}; check also the number of the runner group",
    422: "check the label and the number of the runner group, of which 1 is the default group",
}


def _may_be_repeated(error: UserError) -> bool:
    """Whether another name, or a little later, may help."""
    if not isinstance(error, GitHubError):
        return True  # no answer at all
    slower = error.status in (403, 429) and "rate limit" in str(error).lower()
    return slower or error.status == 409 or error.status in _MAY_BE_MADE


@contextlib.contextmanager
def open_runners(
    repository: str,
    credential: str | AppKey,
    *,
    organisation: str = "",
    group: int = 1,
    api: str = API,
    pause_s: float = 1.0,
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[Runners]:
    """The runners of `repository` (owner/name), or of its organisation where that is named.

    credential: a token, or an App, which is asked for a token of this one repository or organisation.
    """
    token = credential if isinstance(credential, str) else _token_of(credential, repository, organisation, api)
    with open_api(repository, token, api=api, pause_s=pause_s, remedy=_RIGHTS) as opened:
        home = opened.of_organisation(organisation) if organisation else opened
        yield Runners(opened, home, group=group, wait=wait)


def _token_of(app: AppKey, repository: str, organisation: str, api: str) -> str:
    """A token of an hour that can register runners and read workflow runs, and nothing else."""
    import github
    import jwt
    import requests

    rights = {"organization_self_hosted_runners": "write"} if organisation else {"administration": "write"}
    where = f"GitHub App {app.id}"
    try:
        integration = github.GithubIntegration(
            auth=github.Auth.AppAuth(app.id, app.private_key), base_url=api, seconds_between_requests=0, lazy=True
        )
        with contextlib.closing(integration):
            installed = integration.get_repo_installation(*repository.split("/", 1))
            return integration.get_access_token(installed.id, {**rights, "actions": "read"}).token
    except github.GithubException as error:
        remedy = f"install the App on {repository}, with the rights {', '.join(rights)}: write and actions: read"
        raise UserError(f"GitHub answered {error.status}", where=where, remedy=remedy) from None
    except requests.RequestException as error:
        raise UserError(f"cannot be reached: {type(error).__name__}", where=api, remedy="try again later") from None
    except (jwt.PyJWTError, ValueError, TypeError, AssertionError) as error:
        remedy = "give the whole private key in PEM, with its first and last line"
        raise UserError(f"the key cannot be used: {type(error).__name__}", where=where, remedy=remedy) from None
