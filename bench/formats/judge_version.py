"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:141df759e63b2a8e39126e66212822782c6ac7f726cbce1e1493d0ee2f0113f6"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
