"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:b100665affe1cc42bc3514442c49120fd6145f79e73643cd292579f76798f30e"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
