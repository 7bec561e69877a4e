"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:4cd820882d3ff838a787dffa2deb7f76518a691f8b333d9822fb990140bbc458"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
