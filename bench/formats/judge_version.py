"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:cea8c109107b37588376f44b600c764661c463a8f69c2cee83009c18e6452c85"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
