"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:27eae2aef825542ed3a253f9a770828fab80ebb338c4ae3d6801871a275d7c85"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
