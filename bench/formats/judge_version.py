"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "1"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:33b33ec7a5d5bff29a4a851928d3e194c329411e32aff134613634643fee3bcf"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
