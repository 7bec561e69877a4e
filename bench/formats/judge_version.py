"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:76b6c5dee64535dc58cba84462b262cf11614f5f89e6160b2fe0e2caa104f91f"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
