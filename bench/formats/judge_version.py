"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:4b8e5c06e079ee10a17274ac23c5f20d5996087d6f663b066695db01e62ab0b6"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
