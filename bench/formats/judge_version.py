"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:71372cbe5497d2fc9d98e6e8ebb2727a60b472dca3707d323e12bbd8c0638318"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
