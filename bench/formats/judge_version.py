"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:345f4aa098291497c7de7f81b69f594b38b6ca88e1e99db1fe4b847db036c8e0"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
