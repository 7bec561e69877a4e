"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:09269b1ef4c849c26a94c7d6fbe0fc7ca816903e760b5e50952713d5f60fc358"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
