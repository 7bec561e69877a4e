"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "1"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:7db946997c26de805775c03fe84519ff7c39374826e3f3e977b05ce8f7f884bf"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
