"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "1"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:867938ca4ddf789d74c9edb6337793b7f482dba5d14c87c03277980bd6c8c48e"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
