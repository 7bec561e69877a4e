"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:30214aaa1b76f7ad196edc69d48fb66b8058a059cdf7035bc606877e328a4078"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
