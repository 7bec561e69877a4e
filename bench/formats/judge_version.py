"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:db609fa60ccbf4e55c35bd807b45ad29c7f7f6e9181e46c7d7a42ec9058c0e98"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
