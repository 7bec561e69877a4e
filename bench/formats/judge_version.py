"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:13cb1d0df5e542d79f107502229fc5f9dfbb820108a487bae177958f34c59f86"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
