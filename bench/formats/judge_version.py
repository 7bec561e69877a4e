"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:7654affd2459b9b5113d8eb4c28639463a72c5b43feb142602999877971d7c89"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
