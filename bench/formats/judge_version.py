"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:1649355c077eba6d4b5307765dfd41830e2831324574408ac402623e0fafd4fa"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
