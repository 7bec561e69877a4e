"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:bd98af660e31484beb51caa6e36d27fe6d669a0a29a3d88c4ad808802374631c"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
