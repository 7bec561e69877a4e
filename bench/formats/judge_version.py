"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:147cc673134403aeb6baca3bde1f078c82342909fbbbe9a1704e7b8c1fbe26e0"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
