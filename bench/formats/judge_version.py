"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:e7a34b556bacd15e2efea9e910233d3ebdd3aae9797895edec3257c7aa6bd708"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
