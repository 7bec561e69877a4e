"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:b1529342c3fdc81a90219d7ae8e6ced00d9debb0e636ffb063f1ef16a25e739b"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
