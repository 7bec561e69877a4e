"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:779dfedf2d129df62815c7636798dbf3bcffffea4dd08c5af0da07a88555c453"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
