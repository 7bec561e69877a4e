"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:a31c6537acc87acc6bff160159abfb54c86116e2a75d144732ea48aa4753be8b"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
