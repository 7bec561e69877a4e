"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:64363d66f477be6d010bb55eb3fda7cf6a44ee4b50cbc15d0d6a671200b2cbae"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
