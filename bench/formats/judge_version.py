"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "1"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:71711eb00d65e53faa965ae74e649b20749964756c18f61810fa5890513e7815"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
