"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:569babcee00d83881f9175cbfe3cf6d9cb96d385e70cc1a9f23289d062b7a0be"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
