"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:f4cb6539419f9a3ebbb546a22ec501bae175c87a8b045402bd7f76d237078928"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
