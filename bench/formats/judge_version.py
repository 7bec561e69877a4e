"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:d7e7443ff1205d90b057b8b46af314836a24c16796fbc947d299c3e01c89755d"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
