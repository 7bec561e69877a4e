"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "1"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:177cb2c2bf990e950faa69c4a253125b02f62d179eed9206479699b80ea7a284"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
