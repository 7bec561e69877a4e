"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:dde996e23daf68eb79c8b092e4edbe104dce8752a10141ec68174db6d488b91a"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
