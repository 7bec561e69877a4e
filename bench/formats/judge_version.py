"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:f1ca5a799be5620a5b685c8866ec7c438f9d16195631d4b5f5b0116f5af54598"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
