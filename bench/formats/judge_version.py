"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:ccaf57565d0c5f36b119ab7af73379fe66bf5487f8c779e5114170268ae42d30"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
