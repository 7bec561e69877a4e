"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:7b5f4a3cb517fdb699077fa3e5f7d41b6f1886041ff18fe5b8efc5fb6ae39282"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
