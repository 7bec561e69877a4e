"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:44066d41fa9843a551bd366fe338e5ef2c666bf7085037ff535b72d6649c098c"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
