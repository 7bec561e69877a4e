"""The results branch through GitHub's Git Data API, for jobs without a clone and without git's own transport.

https://docs.github.com/en/rest/git: trees, commits and references; a reference is moved with `force: false`.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from bench.base.errors import UserError
from bench.store.git import AUTHOR_EMAIL, AUTHOR_NAME, Entry
from bench.store.git.backend import BranchBackend, Tip, TryAgain, without_secrets
from bench.store.git.objects import object_id

if TYPE_CHECKING:
    from github.GitCommit import GitCommit
    from github.GithubException import GithubException
    from github.GitRef import GitRef
    from github.GitTree import GitTree
    from github.InputGitTreeElement import InputGitTreeElement
    from github.Repository import Repository

T = TypeVar("T")
TOKENS = ("MLDB_TOKEN", "GITHUB_TOKEN", "GH_TOKEN")
"""Where the token is looked for, in this order."""
PAUSE_S = 1.0
"""Between two writes: GitHub's advice against its secondary limits."""
_REQUEST_BYTES = 4_000_000
"""Of file contents in one request; a larger tree is made in several."""
_SECONDS = 60
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_OWN = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
_URL = re.compile(r"https?://([^/\s@]+)/([^/\s]+/[^/\s]+?)(?:\.git)?/?")
_BEATEN = re.compile(r"not a fast.?forward|already exists|does not exist|cannot lock|reference update failed", re.I)


@dataclass(frozen=True)
class GitHubBackend(BranchBackend):
    """A branch of a repository on GitHub."""

    repository: Repository
    branch: str
    _trees: dict[str, GitTree] = field(default_factory=dict)
    _commits: dict[str, GitCommit] = field(default_factory=dict)
    _refs: dict[str, GitRef] = field(default_factory=dict)
    """The reference as it was at each tip."""
    _sent: set[str] = field(default_factory=set)
    """Ids of blobs that GitHub has by now, so that a second try does not send them again."""

    def tip(self) -> Tip | None:
        try:
            with _faults(self.repository):
                ref = self.repository.get_git_ref(f"heads/{self.branch}")
                commit = _sha(_present(ref.object, "object"))
        except _MissingError:
            return None
        self._refs[commit] = ref
        return self.ancestor(commit)

    def ancestor(self, commit: str) -> Tip:
        with _faults(self.repository):
            found = self.repository.get_git_commit(commit)
            self._commits[commit] = found
            tree, parents = _present(found.tree, "tree"), _present(found.parents, "parents")
            return Tip(commit, _sha(tree), tuple(map(_sha, parents)), found.message)

    def trees(self, ids: Sequence[str]) -> dict[str, dict[str, Entry]]:
        found = {}
        for sha in ids:
            tree = self._tree(sha)
            with _faults(self.repository):
                found[sha] = {item.path: Entry(item.mode, item.type, item.sha) for item in _present(tree.tree, "tree")}
        return found

    def blob(self, sha: str) -> bytes:
        with _faults(self.repository):
            content = self.repository.get_git_blob(sha).content
        try:
            return base64.b64decode(content)
        except binascii.Error:
            raise UserError("is not base64", where=f"blob {sha}", remedy="check that this is GitHub") from None

    def blob_id(self, content: bytes) -> str:
        return object_id("blob", content, "sha1")

    def build(self, tip: Tip | None, files: Mapping[str, bytes], message: str) -> str:
        from github.GithubObject import NotSet
        from github.InputGitAuthor import InputGitAuthor

        base = self._tree(tip.tree) if tip else None
        with _faults(self.repository):
            # Each batch is laid over the tree of the batch before.
            for batch in _batches(files):
                elements = [self._element(path, files[path]) for path in batch]
                base = self.repository.create_git_tree(elements, NotSet if base is None else base)
                _sha(base)
                self._sent.update(self.blob_id(files[path]) for path in batch)
            assert base is not None, "a change has files"
            author = InputGitAuthor(AUTHOR_NAME, AUTHOR_EMAIL)
            parents = [self._commits[tip.commit]] if tip else []
            return _sha(self.repository.create_git_commit(message, base, parents, author, author))

    def advance(self, tip: Tip | None, commit: str) -> None:
        with _faults(self.repository):
            if tip is None:
                self.repository.create_git_ref(f"refs/heads/{self.branch}", commit)
            else:
                # The object that `tip` read: a lazily made reference has another URL than the one that changes it.
                self._refs[tip.commit].edit(commit, force=False)

    def _tree(self, sha: str) -> GitTree:
        if sha not in self._trees:
            with _faults(self.repository):
                found = self.repository.get_git_tree(sha)
                _sha(found)
                self._trees[sha] = found
        return self._trees[sha]

    def _element(self, path: str, content: bytes) -> InputGitTreeElement:
        """Text travels inside the request that makes the tree; anything else, or anything large, as a blob before."""
        from github.InputGitTreeElement import InputGitTreeElement

        sha = self.blob_id(content)
        if sha not in self._sent and len(content) <= _REQUEST_BYTES:
            with contextlib.suppress(UnicodeDecodeError):
                return InputGitTreeElement(path, "100644", "blob", content=content.decode())
        if sha not in self._sent:
            sha = self.repository.create_git_blob(base64.b64encode(content).decode(), "base64").sha
            self._sent.add(sha)
        return InputGitTreeElement(path, "100644", "blob", sha=sha)


@contextlib.contextmanager
def open_github_backend(repository: str, branch: str, pause_s: float = PAUSE_S) -> Iterator[BranchBackend]:
    """The branch of `owner/name` or `https://host/owner/name`; the token comes from the environment."""
    base, name = address(repository)
    token = next((os.environ[variable] for variable in TOKENS if os.environ.get(variable)), "")
    if not token:
        raise UserError("no token", where=repository, remedy=f"set {TOKENS[0]} to one that may write contents")
    try:
        from github import Auth, Github
    except ImportError:
        raise UserError(
            "needs PyGithub", where="--via api", remedy="pip install 'ml-dev-bench[github]', or use --via git"
        ) from None
    client = Github(
        auth=Auth.Token(token),
        base_url=base,
        timeout=_SECONDS,
        # `append_with_retry` decides whether and how long to try again.
        retry=None,
        seconds_between_requests=None,
        seconds_between_writes=pause_s,
        lazy=True,
    )
    with contextlib.closing(client):
        yield GitHubBackend(client.get_repo(name), branch)


def address(repository: str) -> tuple[str, str]:
    """Address of the API and `owner/name`; raises `UserError` for what is neither a name nor a URL."""
    if _OWN.fullmatch(repository):
        return os.environ.get("GITHUB_API_URL") or "https://api.github.com", repository
    match = _URL.fullmatch(repository)
    if match is None or not _OWN.fullmatch(match[2]):
        raise UserError(
            "is not the name of a repository on GitHub",
            where=without_secrets(repository),
            remedy="write owner/name or https://host/owner/name",
        )
    scheme = repository.partition("://")[0]
    # Servers of GitHub Enterprise have the API below their own address.
    base = "https://api.github.com" if match[1] == "github.com" else f"{scheme}://{match[1]}/api/v3"
    return base, match[2]


class _MissingError(UserError):
    """Status 404, which GitHub also answers where the token may not read."""


def _present(value: T | None, what: str) -> T:
    """What an answer must hold: one of status 200 without it is as good as lost."""
    if value is None:
        raise TryAgain(f"GitHub answered without {what}")
    return value


class _Object(Protocol):
    @property
    def sha(self) -> str: ...


def _sha(found: _Object) -> str:
    """The id of an object in an answer."""
    if not isinstance(found.sha, str) or not _ID.fullmatch(found.sha):
        raise TryAgain("GitHub answered without the id of an object")
    return found.sha


@contextlib.contextmanager
def _faults(repository: Repository) -> Iterator[None]:
    """GitHub's errors as ours: `TryAgain` for temporary ones, `UserError` for the others."""
    import requests
    from github.GithubException import BadAttributeException, GithubException

    try:
        yield
    except BadAttributeException as error:
        raise _unexpected(error) from None
    except GithubException as error:
        raise _fault(error, repository) from None
    except requests.RequestException as error:
        raise TryAgain(f"{type(error).__name__}: {without_secrets(str(error))}") from None
    except (ValueError, TypeError, AttributeError, LookupError, AssertionError, RuntimeError) as error:
        raise _unexpected(error) from None


def _unexpected(error: Exception) -> TryAgain:
    """An answer of status 200 that is not as documented, on which PyGithub fails in many ways."""
    return TryAgain(f"GitHub answered something that is not as its documentation says: {type(error).__name__}")


def _fault(error: GithubException, repository: Repository) -> Exception:
    data = cast(object, error.data)
    message = str(data.get("message", "")) if isinstance(data, dict) else str(error.message or "")
    said = f"GitHub answered {error.status}: {message}"
    limited = error.status == 429 or (error.status == 403 and "rate limit" in message.lower())
    if limited or error.status >= 500 or (error.status in (409, 422) and _BEATEN.search(message)):
        return TryAgain(said)
    if error.status == 404:
        return _MissingError(said, where=str(repository.url), remedy="check its name and the token's access")
    remedy = "check that the token may write contents there"
    if error.status == 409:
        remedy = "make a first commit there; the API needs one"
    return UserError(said, where=str(repository.url), remedy=remedy)


def _batches(files: Mapping[str, bytes]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for path, content in files.items():
        if batch and size + len(content) > _REQUEST_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += len(content)
    if batch:
        yield batch
