"""Any bytes in place of a patch are applied exactly or refused in one clear line; any two folders have their patch."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from bench.base.errors import UserError
from bench.formats.patch import apply_patch, parse_patch
from bench.formats.patch_writing import make_patch, moved_patch
from tests.helpers.fuzz import Tally, damaged, fuzzed

_BASE = {"a.py": b"one\r\ntwo\nthree\nfour\nfive", "deep/b.txt": b"x\n", "empty": b""}
_AFTER = {"a.py": b"one\r\n2\nthree\nfour\nfive\n", "deep/c\xe9.txt": b"x\ny"}
_LINES = [
    b"--- a/a.py", b"+++ b/a.py", b"--- /dev/null", b"+++ /dev/null", b"+++ b/../x", b"+++ b/new", b"--- a/deep/b.txt",
    b"@@ -1 +1 @@", b"@@ -0,0 +1 @@", b"@@ -1,2 +1,0 @@", b"@@ -9999999,9999999 +9999999,9999999 @@", b"@@ -1 +1 @@\r",
    b"@@ -99999999 +1 @@", b"-two", b"+2", b" one\r", b"\\ No newline at end of file", b"\\", b"", b"+", b"-x",
    b" five",
]  # fmt: skip
_WHOLE = st.just(make_patch(_BASE, _AFTER))
_PATCHES = st.one_of(
    damaged(_WHOLE), damaged(_WHOLE), st.binary(),
    st.lists(st.sampled_from(_LINES), max_size=12).map(lambda lines: b"".join(line + b"\n" for line in lines)),
)  # fmt: skip


@fuzzed
@given(_PATCHES)
@example(make_patch(_BASE, _AFTER))
@example(b"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n" + b"\\ No newline at end of file\n" * 1000)
@example(b"@" * 999_999 + b"\n")
def test_a_patch(tally: Tally, patch: bytes) -> None:
    with tally.example(UserError):
        changed = apply_patch(parse_patch(patch, "x.patch"), _BASE, "x.patch")
        assert apply_patch(parse_patch(make_patch(_BASE, changed) or patch, "again"), _BASE, "again") == changed
    with tally.example(UserError):
        moved = moved_patch(patch, _BASE, "x.patch")
        assert not moved or apply_patch(parse_patch(moved, "moved"), _BASE, "moved") != _BASE


_CONTENTS = st.lists(
    st.sampled_from([b"a\n", b"b\n", b"\n", b"\r\n", b"c\r\n", b"\xff\n", b"-\n", b"\\ No\n"])
).flatmap(lambda lines: st.sampled_from([b"", b"end", b"\r"]).map(lambda end: b"".join(lines) + end))
_FOLDERS = st.dictionaries(st.sampled_from(["a", "b", "c/d", "c/e f", "\u00e9"]), _CONTENTS)


@fuzzed
@given(_FOLDERS, _FOLDERS)
def test_the_patch_between_two_folders(tally: Tally, old: dict[str, bytes], new: dict[str, bytes]) -> None:
    with tally.example():
        patch = make_patch(old, new)
        assert (apply_patch(parse_patch(patch, "x"), old, "x") if patch else old) == new
        assert not patch or moved_patch(patch, old, "x") == patch
