"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:b02c1a76db4dd52c739590d89af28c0653352656b1c36cf09a07efc303c71045"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
