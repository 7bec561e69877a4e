"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:53b18d323f857f98d5fb23fb88863de2e0ff1b84909cf9af6e28b3a6df820e0a"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
