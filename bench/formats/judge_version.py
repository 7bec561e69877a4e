"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:36f2a51f777918a2ecf03ed9f48d7f59eac6f738b0dc3c3dc962760776dce375"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
