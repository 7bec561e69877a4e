"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "1"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:68be32629754cf7a8f74bec58f21559f13d3a722c756b0e63189df20cdf778d3"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
