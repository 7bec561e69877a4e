"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "3"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:8e7f711da4a61ce6348429a1d668598f6a1ea4d93d8984054226893582a0634b"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
