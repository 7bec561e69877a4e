"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:eb2776d24d3b1e73e09000cf9a9f34bd7bc231fe103355aef8f3b777848b8392"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
