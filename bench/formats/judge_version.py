"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:75bdf84ce16b69ed66a58992d298b19e2287f946b003ca36c4d4608120cb0cde"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
