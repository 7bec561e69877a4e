"""What a commit on the results branch brings: the files of a run, or one more decision."""

from __future__ import annotations

from collections.abc import Collection

from bench.errors import UserError
from bench.files import sha256_bytes
from bench.store.bundle import Bundle, Rendered, exported_schemas
from bench.store.chain import key_path, last_link, manifest_of, unregistered
from bench.store.decisions import FILE, Decision, last_digest, month_of, parse_decisions
from bench.store.landing import Change
from bench.store.manifest import parse_manifest
from bench.store.place import Place, Tip
from bench.store.tree import find

_ATTEMPTS = 20
"""Attempts looked for when a decision names none; GitHub's own re-runs stop long before."""


def add_bundle(place: Place, tip: Tip | None, bundle: Bundle, rendered: Rendered) -> Change | None:
    """The commit that stores a bundle on `tip`; None: it is there. Another one under its name is a `UserError`."""
    key, schemas = key_path(bundle.key), exported_schemas()
    previous = None
    held: Collection[str] = ()
    if tip is not None:
        # Everything that will be asked for, in one descent; whoever looks again finds it known.
        asked = [*rendered.files, *bundle.inline, bundle.manifest_path, key, "keys", "manifests"]
        asked += [path for name, text in schemas.items() for path in _schema_paths(name, text)]
        held = find(place, tip.tree, asked)
        if _holds(place, tip, bundle, rendered):
            return None
        link = last_link(place, tip)
        previous = link.digest if link else None
    manifest = rendered.manifest.model_copy(update={"previous": previous})
    content = manifest.to_bytes()
    late = unregistered(place, tip) if tip else {}
    files = {
        **rendered.files,
        # Their names are digests of what they hold; another compressor may have made the one that is there.
        **{path: content for path, content in bundle.inline.items() if path not in held},
        **{key_path(other): f"{path}\n".encode() for other, path in late.items()},
        **_new_schemas(place, tip, schemas),
        key: f"{bundle.manifest_path}\n".encode(),
        bundle.manifest_path: content,
    }
    cells = sum(file.records for file in manifest.files)
    trailer = f"Manifest-Digest: {sha256_bytes(content)}\nManifest: {bundle.manifest_path}\n"
    return Change(files, f"Results of {bundle.run}, attempt {bundle.attempt}: {cells} cells\n\n{trailer}")


def add_decision(place: Place, tip: Tip | None, decision: Decision) -> Change | None:
    """The commit that adds a decision to the ledger; None: it is there already."""
    if tip is None:
        raise UserError("nothing is stored yet", where=f"run {decision.run}", remedy="name a stored run")
    _require_runs(place, tip, decision)
    folder = find(place, tip.tree, ["decisions"]).get("decisions")
    held = place.trees([folder.sha])[folder.sha] if folder else {}
    newest = max((f"decisions/{name}" for name in held if FILE.fullmatch(f"decisions/{name}")), default=None)
    path = month_of(decision, newest)
    last = place.blob(held[newest.removeprefix("decisions/")].sha) if newest else b""
    if newest and any(decision.says_the_same(other) for other in parse_decisions(last, newest)):
        return None
    line = decision.model_copy(update={"previous": last_digest(last)}).to_line() + b"\n"
    link = last_link(place, tip)
    files = {path: (last if path == newest else b"") + line, **_new_schemas(place, tip, exported_schemas())}
    message = f"Decision: {decision.run} {decision.kind}\n\n{link.trailer() if link else ''}"
    return Change(files, message, frozenset({path} if path == newest else ()))


def _holds(place: Place, tip: Tip, bundle: Bundle, rendered: Rendered) -> bool:
    """Has the branch this very bundle? Another one under the same run and attempt is a `UserError`."""
    path = manifest_of(place, tip, bundle.key)
    if path is None:
        return False
    entry = find(place, tip.tree, [path]).get(path)
    manifest = parse_manifest(place.blob(entry.sha), path) if entry else None
    if manifest is None or path != bundle.manifest_path or not manifest.holds_the_same(rendered.manifest):
        raise UserError(
            f"run {bundle.run}, attempt {bundle.attempt}, is stored already, with other content",
            where=path,
            remedy="stored results are never rewritten; publish under another run or attempt",
        )
    return True


def _new_schemas(place: Place, tip: Tip | None, schemas: dict[str, bytes]) -> dict[str, bytes]:
    """The schemas as files, unless they are there; a later wording of the same version gets a name of its own."""
    new = {}
    for name, text in schemas.items():
        plain, dated = _schema_paths(name, text)
        held = find(place, tip.tree, [plain, dated]) if tip else {}
        if plain not in held:
            new[plain] = text
        elif dated not in held and held[plain].sha != place.blob_id(text):
            new[dated] = text
    return new


def _schema_paths(name: str, text: bytes) -> tuple[str, str]:
    return f"schema/{name}.json", f"schema/{name}-{sha256_bytes(text).removeprefix('sha256:')[:12]}.json"


def _require_runs(place: Place, tip: Tip, decision: Decision) -> None:
    """Raises `UserError` for a decision about what is not stored."""
    for run, attempt in ((decision.run, decision.attempt), (decision.replaced_by, None)):
        attempts = range(1, _ATTEMPTS + 1) if attempt is None else (attempt,)
        if run is not None and all(manifest_of(place, tip, f"{run}-{number}") is None for number in attempts):
            named = run if attempt is None else f"{run}, attempt {attempt}"
            raise UserError("no such run is stored", where=f"run {named}", remedy="`results show` lists what is")
