"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:b7bc1c493ec4420f552e277b1ce46fa6d2d05b00946936d48440d5242718ddbd"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
