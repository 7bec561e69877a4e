"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:8d98651f197dbbf732b2c86a791ecdfdfd69ad462e16210b1c2bae9078386b14"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
