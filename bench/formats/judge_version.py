"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "1"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:27474938296451c6d870f6521d871fc905e7eeff760ca3af6e30e4c1bccbde1b"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
