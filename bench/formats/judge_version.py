"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:f37596a67e8f1f4202587ce5b6a55b688c22211af2a04b43a1b084a5c0174b05"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
