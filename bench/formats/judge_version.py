"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:1286361321c7310897f4590d9386f1cd3c6b8d73101d25815dfa1c511d0761d9"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
