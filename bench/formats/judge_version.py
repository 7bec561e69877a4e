"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:3e0a90e2e567793f5cb72dbe9842ac52dcd6751df7e8074f84ef4843b358ee65"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
