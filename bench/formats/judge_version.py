"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:39f616a3637b048e8c4caf562419a339240e0634db90ea8c570477edb0185729"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
