"""GitHub's REST API: each answer is a validated model, or one line that says what was wrong with it.

PyGithub signs and paces the requests. Never run against github.com: the tests speak to a stand-in server over HTTP.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from bench.base.errors import UserError
from bench.base.model import explain

if TYPE_CHECKING:
    from github.Requester import Requester

API = "https://api.github.com"
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
_ORGANISATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_SECONDS = 30
_TRIES = 4
_MOST_PAUSE_S = 120
_PER_PAGE = 100
_MOST_PAGES = 100
_CHUNK = 1 << 16


class Answer(BaseModel):
    """What is read of an answer: GitHub may add fields at any time."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)


AnswerT = TypeVar("AnswerT", bound=Answer)


class GitHubError(UserError):
    """A refusal, or an answer that cannot be used."""

    def __init__(self, status: int, message: str, *, where: str, remedy: str = "") -> None:
        super().__init__(message, where=where, remedy=remedy)
        self.status = status
        """Of the answer; 200 for one of an unexpected shape."""


class GitHubApi:
    """One repository's part of the API. Every method raises `UserError`; paths begin below /repos/OWNER/NAME.

    organisation: paths begin below /orgs/ORGANISATION instead.
    """

    def __init__(
        self, requester: Requester, repository: str, api: str, token: str, remedy: str, *, organisation: str = ""
    ) -> None:
        self.repository = repository
        self._root = f"/orgs/{organisation}" if organisation else f"/repos/{repository}"
        self._requester = requester
        self._api = api.rstrip("/")
        self._token = token
        self._remedy = remedy

    def get(self, model: type[AnswerT], path: str, **query: str) -> AnswerT:
        """The object at `path`."""
        return self._validated(model, self._ask("GET", path, query)[1], path)

    def send(self, verb: str, model: type[AnswerT], path: str, body: Mapping[str, object]) -> AnswerT:
        """What is answered to `body`."""
        return self._validated(model, self._ask(verb, path, {}, body)[1], path)

    def delete(self, path: str) -> None:
        """What is at `path` is gone after this; GitHub answers without a body."""
        self._ask("DELETE", path, {})

    def of_organisation(self, name: str) -> GitHubApi:
        """The API of an organisation, with the same token; raises `UserError` for what is not a name."""
        if not _ORGANISATION.fullmatch(name):
            raise UserError(f"`{name}` is not an organisation", remedy="write the name that its address has")
        return GitHubApi(self._requester, self.repository, self._api, self._token, self._remedy, organisation=name)

    def pages(self, model: type[AnswerT], path: str, field: str = "", **query: str) -> Iterator[AnswerT]:
        """The items of a list, over all its pages; field: of the answer that holds them, where it is not the list."""
        for page in range(1, _MOST_PAGES + 1):
            headers, data = self._ask("GET", path, {**query, "per_page": str(_PER_PAGE), "page": str(page)})
            items = data.get(field) if field and isinstance(data, dict) else data
            if not isinstance(items, list):
                raise self._unexpected(path, f"`{field or 'document'}` is not a list")
            for item in items:
                yield self._validated(model, item, path)
            if 'rel="next"' not in str(headers.get("link", "")):
                return
        raise GitHubError(200, f"more than {_MOST_PAGES} pages at {path}", where=self.repository)

    def download(self, path: str, most: int) -> bytes:
        """The file to which `path` redirects, of at most `most` bytes; the token stays with the API."""
        import requests

        url = f"{self._api}/repos/{self.repository}{path}"
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/vnd.github+json"}
        try:
            with requests.Session() as session:
                # Neither .netrc nor a proxy's settings may add a password of their own; proxies themselves are kept.
                session.auth = lambda request: request
                first = session.get(url, headers=headers, allow_redirects=False, timeout=_SECONDS)
                place = first.headers.get("Location", "")
                if first.status_code != 302 or urlsplit(place).scheme not in ("https", "http"):
                    raise GitHubError(
                        first.status_code,
                        f"GitHub answered {first.status_code} in place of a redirect to the file at {path}",
                        where=self.repository,
                        remedy=self._remedy,
                    )
                with session.get(place, stream=True, timeout=_SECONDS) as answer:
                    if answer.status_code != 200:
                        said = f"the storage answered {answer.status_code} to the file at {path}"
                        raise GitHubError(answer.status_code, said, where=self.repository, remedy="try again later")
                    return self._capped(answer.iter_content(_CHUNK), most, path)
        except requests.RequestException as error:
            raise self._unreachable(error) from None

    def _capped(self, chunks: Iterator[bytes], most: int, path: str) -> bytes:
        data = bytearray()
        for chunk in chunks:
            data += chunk
            if len(data) > most:
                raise GitHubError(200, f"the file at {path} has more than {most} bytes", where=self.repository)
        return bytes(data)

    def _ask(
        self, verb: str, path: str, query: Mapping[str, str], body: Mapping[str, object] | None = None
    ) -> tuple[Mapping[str, Any], Any]:
        import github
        import requests

        url = f"{self._root}{path}"
        try:
            return self._requester.requestJsonAndCheck(verb, url, parameters=dict(query) or None, input=body)
        except github.GithubException as error:
            message = error.data.get("message", "") if isinstance(error.data, dict) else ""
            said = f"GitHub answered {error.status} {message}".strip()
            raise GitHubError(error.status, said, where=self.repository, remedy=self._remedy) from None
        except requests.RequestException as error:
            raise self._unreachable(error) from None
        except (ValueError, TypeError, AttributeError, LookupError, AssertionError, RuntimeError) as error:
            # PyGithub expects JSON, and a redirect to where the repository has moved, to be whole.
            raise self._unexpected(path, f"{type(error).__name__} on reading it") from None

    def _validated(self, model: type[AnswerT], data: object, path: str) -> AnswerT:
        try:
            return model.model_validate(data)
        except ValidationError as error:
            raise self._unexpected(path, explain(error, model)) from None

    def _unexpected(self, path: str, fault: str) -> GitHubError:
        said = f"an answer that is not as GitHub's documentation says, to {path}: {fault}"
        return GitHubError(200, said, where=self.repository, remedy=f"check that {self._api} is GitHub's API")

    def _unreachable(self, error: Exception) -> UserError:
        return UserError(f"cannot be reached: {type(error).__name__}", where=self._api, remedy="try again later")


@contextlib.contextmanager
def open_api(
    repository: str, token: str, *, api: str = API, pause_s: float = 1.0, remedy: str = ""
) -> Iterator[GitHubApi]:
    """The API for `repository` (owner/name); pause_s: between two writes; remedy: for what GitHub refuses.

    What only reads is tried again when a server fails. Raises `UserError` for what is not a repository's name.
    """
    import github
    import urllib3

    if not _REPOSITORY.fullmatch(repository):
        raise UserError(f"`{repository}` is not a repository", remedy="write owner/name")

    class Retry(urllib3.Retry):
        def sleep_for_retry(self, response: urllib3.BaseHTTPResponse) -> bool:
            # GitHub may ask for hours, in which a job would cost its minutes and do nothing.
            if (asked := self.get_retry_after(response) or 0) > _MOST_PAUSE_S:
                raise UserError(f"asks for a pause of {asked:.0f} seconds", where=api, remedy="try again after it")
            return super().sleep_for_retry(response)

    again = Retry(total=_TRIES, status_forcelist=(500, 502, 503, 504), allowed_methods=("GET",), backoff_factor=0.5)
    client = github.Github(
        auth=github.Auth.Token(token),
        base_url=api,
        timeout=_SECONDS,
        retry=again,
        seconds_between_requests=0,
        seconds_between_writes=pause_s,
        lazy=True,
    )
    with contextlib.closing(client):
        yield GitHubApi(client.requester, repository, api, token, remedy)
