"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "1"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:deccbfa454ebb5fad8f8f22c6c60aef4602b428784a2903ed14f8b4cc0143141"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
