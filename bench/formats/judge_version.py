"""The declared version of judge and kit. Beside a case's digest it identifies a series of results.

`python -m scripts.judge_version` writes this file; a test holds `SOURCES` against the sources.
"""

JUDGE = "2"
"""Raised when a change of the sources may give another verdict of the same workspace."""
SOURCES = "sha256:830d1ad02a76d622f2311725e77fea6545b35bbdd344039c16663011ef91d1b0"
"""Of the sources that were last decided upon: see `bench.authoring.judge_sources`."""
