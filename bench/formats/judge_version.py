"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:7f9597001f0612787ea875a0bc4f19e86f821738b2da81f739e2b1f740d3278d"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
