"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:137beeded2129aaca7da8d864d20838510bde0f6db6ff28c26756c95a1bd648a"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
