"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:26b02a2dfe5d503d7eb3c42519cb3b140a07ad290bf8ea17ef0b862b62a3b84f"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
