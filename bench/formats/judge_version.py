"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:3afc93e1bdef5a86704c70eb020366a8266e32f1b38f2806c8e6389bb0672263"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
