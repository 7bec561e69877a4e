"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:d0adeb84141bc2f3e19847e83ac66eb7be7c0925761ccc77b44f9b621c3db386"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
