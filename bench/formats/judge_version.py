"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:27ca452e196674468633e307844e83f869a19c66d000f141a568a61ce0c25c31"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
