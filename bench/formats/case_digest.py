"""The two digests of a case: of what decides a verdict, and of everything that its proof has met.

The judged digest identifies a series of results, together with the version of the judge. The proof digest keys the lock
of a case's proof. A new wrong answer changes the second one alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from bench.base.documents import parse_yaml
from bench.base.errors import UserError
from bench.base.files import digest_folder, sha256_bytes
from bench.base.model import Model

_TEXTS = frozenset({"category", "corrections", "source", "tags", "title"})
NOT_JUDGED = _TEXTS | {"extends", "kind", "profiles", "promises", "solution", "wrong"}
"""Fields of case.yaml that no verdict depends on: texts for readers, what only a proof uses, and which profiles exist.
A field that is not named here counts."""
_DESCRIPTION = "case.yaml"
_README = "README.md"
ORIGINAL = "original.py"
"""What the original's evaluator says of a submission (`bench.authoring.original`): in neither digest."""
_CORRECTIONS = re.compile(r"^corrections:.*\n(?:[ \t].*\n|\n(?=[ \t\n]))*", flags=re.MULTILINE)
"""The field with the lines that are indented below it."""
_PROOF_ONLY = ("solution/", "wrong/")


def judged_digest(folders: Sequence[Path], assets: Sequence[Path], spec: Model) -> str:
    """Of what decides a verdict: files other than README.md, original.py, solution/ and wrong/, and facts of case.yaml.

    folders: the case's own, and that of its parent where it is a variant. The facts are canonical: comments, order,
    spelling of numbers and fields that only repeat their default count for nothing.
    """
    without = frozenset({_DESCRIPTION, _README, ORIGINAL, *_PROOF_ONLY})
    files = [digest_folder(folder, without=without) for folder in folders] + [digest_folder(it) for it in assets]
    facts = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=set(NOT_JUDGED))
    profiles = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, include={"profiles"}).get("profiles")
    if isinstance(profiles, dict):
        # They change limits and needs, and do not only exist.
        facts["profiles"] = profiles
    # Wherever a file of this digest comes from, it is the same one.
    for sources in facts.get("sources", {}).values():
        sources.update({name: [it["sha256"], it.get("unpack", "no")] for name, it in sources.items()})
    # Probes read the signatures that they try out of the quotes.
    promises = spec.model_dump(include={"promises"}).get("promises", [])
    facts["promises"] = [promise["quote"] for promise in promises]
    return sha256_bytes(json.dumps({"facts": facts, "files": files}, sort_keys=True).encode())


def proof_digest(folders: Sequence[Path]) -> str:
    """Of everything in the folders but README.md, original.py and the corrections of case.yaml: no proof meets them."""
    without = frozenset({_README, ORIGINAL})
    return sha256_bytes("\n".join(digest_folder(it, without=without, instead=_texts(it)) for it in folders).encode())


def _texts(folder: Path) -> dict[str, str]:
    """The digest of case.yaml as it would be without its corrections; empty where there are none."""
    path = folder / _DESCRIPTION
    if not path.is_file():
        return {}
    whole = path.read_text(encoding="utf-8", errors="surrogateescape")
    rest = _CORRECTIONS.sub("", whole)
    if rest == whole:
        return {}
    # What looks like the field could be a part of another one, which counts.
    try:
        before, after = (next(iter(parse_yaml(text, path)), None) for text in (whole, rest))
    except UserError:
        return {}
    if not isinstance(before, dict) or {k: v for k, v in before.items() if k != "corrections"} != after:
        return {}
    return {_DESCRIPTION: sha256_bytes(rest.encode("utf-8", "surrogateescape"))}
