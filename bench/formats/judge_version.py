"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:8f2749893b1b6dad7b59334bf6fa0ad90ff15595a76b3e760702661cf993f0b9"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
