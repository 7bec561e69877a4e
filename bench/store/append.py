"""Adding to the results branch: what a commit of a run or a decision holds, and how it gets onto the branch.

The chain of manifests (each commit's message names the manifest stored last) and the register of runs (`keys/`) tell
what is on the branch without reading all of it.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.base.text import counted
from bench.store.bundle import Bundle, Manifest, Rendered, exported_schemas, parse_manifest
from bench.store.decisions import FILE, Decision, last_digest, month_of, parse_decisions
from bench.store.git.backend import BranchBackend, Tip, TryAgain, check_path, edited_by_hand, find, walk

_LAST = re.compile(
    r"^(?:Manifest-Digest: (?P<digest>sha256:[0-9a-f]{64})\n)?Manifest: (?P<path>manifests/\S+)$", re.MULTILINE
)
"""The end of each commit's message: the manifest that was stored last, by this commit or an earlier one."""
_FOREIGN = 1000
"""At most so many commits by others are skipped in search of one of ours."""
Prepare = Callable[[BranchBackend, "Tip | None"], "Change | None"]
"""Builds a change on a tip; None: the tip holds it already."""
_ATTEMPTS = 20
"""Attempts that are looked for when a decision names none; GitHub's own re-runs stop long before."""


@dataclass(frozen=True)
class Link:
    """The manifest stored last."""

    path: str
    digest: str

    def trailer(self) -> str:
        return f"Manifest-Digest: {self.digest}\nManifest: {self.path}\n"


def last_link(backend: BranchBackend, tip: Tip) -> Link | None:
    """The end of the chain, from the newest commit of ours; None: nothing is stored yet.

    Raises `UserError` where the branch no longer has the manifest that this commit names.
    """
    commit = tip
    for _ in range(_FOREIGN):
        if named := list(_LAST.finditer(commit.message)):
            return _link(backend, tip, named[-1]["path"], named[-1]["digest"])
        if not commit.parents:
            break
        commit = backend.ancestor(commit.parents[0])
    if "manifests" in find(backend, tip, ["manifests"]):
        raise edited_by_hand("no commit names the manifest that was stored last", where="manifests")
    return None


def parse_trailer(message: str) -> str | None:
    """The manifest that a commit message names, None for a message of another program."""
    found = list(_LAST.finditer(message))
    return found[-1]["path"] if found else None


def key_path(key: str) -> str:
    """Where the register keeps a run's entry: `keys/<two hex digits>/<run>-<attempt>`, for even folders."""
    return f"keys/{sha256_bytes(key.encode())[7:9]}/{key}"


def manifest_of(backend: BranchBackend, tip: Tip, key: str) -> str | None:
    """The path of the manifest of `<run>-<attempt>`, whatever its day; None: no such run is stored."""
    path = key_path(key)
    held = find(backend, tip, [path, "keys"])
    if path in held:
        return backend.blob(held[path].sha).decode("utf-8", "replace").strip()
    if "keys" not in held:
        return unregistered(backend, tip).get(key)
    return None


def stored_manifest(backend: BranchBackend, tip: Tip, path: str) -> Manifest | None:
    """The manifest at `path`, None where the file is missing."""
    entry = find(backend, tip, [path]).get(path)
    return parse_manifest(backend.blob(entry.sha), path) if entry else None


def unregistered(backend: BranchBackend, tip: Tip | None) -> dict[str, str]:
    """Run to manifest, of a branch from before there was a register; read once, then it is written down."""
    held = find(backend, tip, ["keys", "manifests"])
    if "keys" in held or "manifests" not in held:
        return {}
    paths = walk(backend, held["manifests"].sha, "manifests/")
    return {path.rpartition("/")[2].removesuffix(".json"): path for path in sorted(paths) if path.endswith(".json")}


def _link(backend: BranchBackend, tip: Tip, path: str, digest: str | None) -> Link:
    entry = find(backend, tip, [path]).get(path)
    if entry is None:
        raise edited_by_hand("is the last stored manifest, and the file is missing", where=path)
    # A message with the digest saves reading the manifest, which is a request to a remote repository.
    return Link(path, digest or sha256_bytes(backend.blob(entry.sha)))


@dataclass(frozen=True)
class Change:
    """Files to add in one commit."""

    files: Mapping[str, bytes]
    message: str
    grown: frozenset[str] = field(default_factory=frozenset)
    """Of the files, those that exist and whose new content begins with the old one."""


@dataclass(frozen=True)
class Appended:
    """What became of a change."""

    commit: str
    """A commit that holds it: the new one, or the tip that had it already."""
    new: bool
    """False: the branch had it already."""


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long to try again (design 4.7: 12 tries in 5 minutes)."""

    tries: int = 12
    seconds: float = 300.0
    first_wait_s: float = 0.1
    longest_wait_s: float = 40.0


class RetriesExhausted(UserError):
    """Nothing was changed, and the same command again may succeed."""


def append_with_retry(
    backend: BranchBackend, prepare: Prepare, retry: RetryPolicy, deadline: float, what: str
) -> Appended:
    """Build the change that `prepare` makes for the tip and move the branch there; no change: the tip has it already.

    Raises `RetriesExhausted` after the last try, `UserError` where trying again cannot help.
    """
    lasted, reason, failures = retry.first_wait_s, "", 0
    # At least one try, however long it took to get here.
    while failures < retry.tries and (not failures or time.monotonic() < deadline):
        _wait(failures, lasted, retry, deadline)
        began = time.monotonic()
        try:
            tip = backend.tip()
            change = prepare(backend, tip)
            if change is None:
                assert tip is not None, "only a commit can have it already"
                return Appended(tip.commit, new=False)
            commit = backend.build(tip, _missing(backend, tip, change), change.message)
            backend.advance(tip, commit)
            return Appended(commit, new=True)
        except TryAgain as fault:
            reason, failures = str(fault), failures + 1
            lasted = time.monotonic() - began
    raise RetriesExhausted(
        f"was not stored in {failures} tries: {reason[:500]}", where=what, remedy="nothing was changed; store it again"
    )


def _missing(backend: BranchBackend, tip: Tip | None, change: Change) -> dict[str, bytes]:
    """The files that the tip does not have; raises `UserError` for a path with other content."""
    for path in change.files:
        check_path(path)
    held = find(backend, tip, change.files)
    missing = {}
    for path, content in change.files.items():
        if path in held and path not in change.grown:
            if held[path].kind == "blob" and held[path].sha == backend.blob_id(content):
                continue
            raise UserError(
                "is on the results branch already, with other content",
                where=path,
                remedy="stored results are never rewritten; publish under another run or attempt",
            )
        missing[path] = content
    return missing


def _wait(failures: int, lasted: float, retry: RetryPolicy, deadline: float) -> None:
    """Sleep a random time up to a bound that doubles, so that writers who collided once do not collide again.

    (M. Brooker, "Exponential Backoff And Jitter", 2015.) The bound starts from what one try takes: writers must spread
    over as many tries' time as there are writers.
    """
    if failures:
        bound = min(retry.longest_wait_s, max(retry.first_wait_s, lasted) * 2 ** (failures - 1))
        # From the system: writers that were started alike must not draw alike.
        time.sleep(min(random.SystemRandom().uniform(0, bound), max(0.0, deadline - time.monotonic())))


def add_bundle(backend: BranchBackend, tip: Tip | None, bundle: Bundle, rendered: Rendered) -> Change | None:
    """The commit that stores a bundle on `tip`; None: it is there. Another one under its name is a `UserError`."""
    key, schemas = key_path(bundle.key), exported_schemas()
    path = rendered.manifest.path
    # Everything that is needed, in one descent: the back end remembers the trees for the look-ups that follow.
    wanted = [*rendered.files, *bundle.inline, path, key, "keys", "manifests"]
    held = find(backend, tip, [*wanted, *(file for item in schemas.items() for file in _schema_paths(*item))])
    if tip is not None and _holds(backend, tip, rendered.manifest):
        return None
    link = last_link(backend, tip) if tip else None
    manifest = rendered.manifest.model_copy(update={"previous": link.digest if link else None})
    content = manifest.to_bytes()
    files = {
        **rendered.files,
        # Not those that are there: the name is the digest of what is inside, and another compressor gives other bytes.
        **{name: trace for name, trace in bundle.inline.items() if name not in held},
        **{key_path(other): f"{stored}\n".encode() for other, stored in unregistered(backend, tip).items()},
        **_new_schemas(backend, tip, schemas),
        key: f"{path}\n".encode(),
        path: content,
    }
    cells = sum(file.records for file in manifest.files)
    trailer = Link(path, sha256_bytes(content)).trailer()
    return Change(files, f"Results of {bundle.run}, attempt {bundle.attempt}: {counted(cells, 'cell')}\n\n{trailer}")


def add_decision(backend: BranchBackend, tip: Tip | None, decision: Decision) -> Change | None:
    """The commit that adds a decision to the ledger; None: it is there already."""
    if tip is None:
        raise UserError("nothing is stored yet", where=f"run {decision.run}", remedy="name a stored run")
    _require_runs(backend, tip, decision)
    folder = find(backend, tip, ["decisions"]).get("decisions")
    held = backend.trees([folder.sha])[folder.sha] if folder else {}
    # The names sort by month.
    newest = max((f"decisions/{name}" for name in held if FILE.fullmatch(f"decisions/{name}")), default=None)
    path = month_of(decision, newest)
    last = backend.blob(held[newest.removeprefix("decisions/")].sha) if newest else b""
    if newest and any(decision.says_the_same(other) for other in parse_decisions(last, newest)):
        return None
    line = decision.model_copy(update={"previous": last_digest(last)}).to_line() + b"\n"
    link = last_link(backend, tip)
    files = {path: (last if path == newest else b"") + line, **_new_schemas(backend, tip, exported_schemas())}
    message = f"Decision: {decision.run} {decision.kind}\n\n{link.trailer() if link else ''}"
    return Change(files, message, frozenset({path} if path == newest else ()))


def add_look(backend: BranchBackend, tip: Tip | None, run: str, number: int, content: bytes) -> Change | None:
    """The commit that writes down a look at a run; None: it is there. Another one under its number is a `UserError`."""
    if tip is None:
        raise UserError("nothing is stored yet", where=f"run {run}", remedy="collect its first round")
    path = f"looks/{run}/{number:02d}.json"
    if path in (held := find(backend, tip, [path])) and held[path].sha == backend.blob_id(content):
        return None
    link = last_link(backend, tip)
    return Change({path: content}, f"Look {number} at {run}\n\n{link.trailer() if link else ''}")


def _holds(backend: BranchBackend, tip: Tip, wanted: Manifest) -> bool:
    """Does the branch have the run of this manifest? Another one under the same run and attempt is a `UserError`."""
    path = manifest_of(backend, tip, wanted.key)
    if path is None:
        return False
    held = stored_manifest(backend, tip, path)
    if held is None or path != wanted.path or not held.holds_the_same(wanted):
        raise UserError(
            f"run {wanted.run}, attempt {wanted.attempt}, is stored already, with other content",
            where=path,
            remedy="stored results are never rewritten; publish under another run or attempt",
        )
    return True


def _new_schemas(backend: BranchBackend, tip: Tip | None, schemas: dict[str, bytes]) -> dict[str, bytes]:
    """The schemas that are not stored yet; another text of the same version gets a file name with its digest."""
    new = {}
    for name, text in schemas.items():
        plain, dated = _schema_paths(name, text)
        held = find(backend, tip, [plain, dated])
        if plain not in held:
            new[plain] = text
        elif dated not in held and held[plain].sha != backend.blob_id(text):
            new[dated] = text
    return new


def _schema_paths(name: str, text: bytes) -> tuple[str, str]:
    return f"schema/{name}.json", f"schema/{name}-{sha256_bytes(text).removeprefix('sha256:')[:12]}.json"


def _require_runs(backend: BranchBackend, tip: Tip, decision: Decision) -> None:
    """Raises `UserError` for a decision about a run that is not stored."""
    for run, attempt in ((decision.run, decision.attempt), (decision.replaced_by, None)):
        attempts = range(1, _ATTEMPTS + 1) if attempt is None else (attempt,)
        if run is not None and all(manifest_of(backend, tip, f"{run}-{number}") is None for number in attempts):
            named = run if attempt is None else f"{run}, attempt {attempt}"
            raise UserError("no such run is stored", where=f"run {named}", remedy="list them with `results show`")
