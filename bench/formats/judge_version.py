"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:d7de4455659831b4e18c9071c94a16d67146e5846810f96e474c2fda3cb1e172"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
