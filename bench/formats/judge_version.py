"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:fa99e2ff94f766e259302c4f9b75d0c43721ce001ab82a7811d85d19f2be7532"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
