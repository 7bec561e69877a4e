"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:2e9e4e985cdc00700a981fe4d2bffefc8ecaf02abc2111da94a4c9667807c270"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
