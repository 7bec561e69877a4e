"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:0037851ab4f3b30d7a8688e59591dc857b439eef963decb11bc15c7f7191e7b9"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
