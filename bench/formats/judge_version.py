"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:00dd722c4ffc43887112f3dceb18cc21331f0e04500d75fed5c359a2b02c9975"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
