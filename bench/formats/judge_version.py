"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:9dd7c893e4a0dfc4e311fb6628d02b102a599c9995cb31fba64132726f08823f"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
