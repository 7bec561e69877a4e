"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:a2078090026c765c571e540e00ccd41b2ebf1e32a3dc8aa6ca932454f0fd3f23"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
