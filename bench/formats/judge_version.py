"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:f1a8a1a36bb9ba240035e923a5dd6dfd9ca1b83fd290d719070f1f2cf416939d"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
