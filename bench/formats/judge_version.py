"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:51ab4ab8dd6fe6b03dc4a4a6fb64b2b7245d47396925aa31e87f98145376f642"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
