"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:ece39c5d9dec994fdf8bc87454ea171e242a5a657af40e648b9e3319b8b87cde"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
