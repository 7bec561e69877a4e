"""The two digests of a case: of what decides a verdict, and of everything that its proof has met.

The judged digest identifies a series of results, together with the version of the judge. The proof digest keys the lock
of a case's proof. A new wrong answer changes the second one alone.
"""

from __future__ import annotations

import json
from pathlib import Path

from bench.base.files import digest_folder, sha256_bytes
from bench.base.model import Model

NOT_JUDGED = frozenset({"category", "profiles", "solution", "source", "tags", "title", "wrong"})
"""Fields of case.yaml that no verdict depends on: texts for readers, what only a proof uses, and which profiles exist.
A field that is not named here counts."""
_DESCRIPTION = "case.yaml"
_README = "README.md"
_PROOF_ONLY = ("solution/", "wrong/")


def judged_digest(folder: Path, spec: Model) -> str:
    """Of what decides a verdict: every file except README.md, solution/ and wrong/, and the facts of case.yaml.

    The facts are canonical: comments, order, spelling of numbers and fields that only repeat their default count for
    nothing.
    """
    files = digest_folder(folder, without=frozenset({_DESCRIPTION, _README, *_PROOF_ONLY}))
    facts = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=set(NOT_JUDGED))
    return sha256_bytes(json.dumps({"facts": facts, "files": files}, sort_keys=True).encode())


def proof_digest(folder: Path) -> str:
    """Of everything in the folder except README.md."""
    return digest_folder(folder, without=frozenset({_README}))
