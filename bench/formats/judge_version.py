"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:76c3e60225eec8be0fc26359d59a9c49dfce5b1de5d55e3b17fa8207e00d4eab"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
