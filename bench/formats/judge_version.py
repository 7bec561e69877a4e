"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:30a170afe31c65cb6b6d1c976ce839113d005a3a03e3cf783383d5ab6f96b19d"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
