"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:a93788054880ae064464795ea9df52d7e5a3cd4809086221e784a4cf9d4ceadb"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
