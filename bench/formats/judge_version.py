"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "1"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:bb9418f1a9be6a77df5993e59b51b7f84997b595cc500b95fbedacd65b8f34d9"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
