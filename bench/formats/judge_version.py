"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "3"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:b041aaabbefd9ed3c83c321c6e629d3caa0b397099489f2c23f6d880c6c05428"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
