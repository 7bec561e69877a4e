"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:4da004e0389d322412bba658d1d898195a7d88805db0e0395ad0013ab59d0268"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
