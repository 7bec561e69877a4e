"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:6f8acfb5f1dc83aabeecb7754615bca2d77417b5f974b44eccdad5e703099b82"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
