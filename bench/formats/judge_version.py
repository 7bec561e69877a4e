"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:87b9e0223a9837b44163704551a546de3d2139216607ede70711220f473c2612"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
