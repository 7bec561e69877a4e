"""A patch is applied exactly, or refused with the file, the hunk and what to do."""

from __future__ import annotations

import pytest

from bench.base.errors import UserError
from bench.formats.patch import apply_patch, parse_patch
from bench.formats.patch_writing import make_patch, moved_patch

BASE = {"a.py": b"one\ntwo\nthree\nfour\nfive\n", "deep/b.txt": b"x\n"}
HEAD = b"--- a/a.py\n+++ b/a.py\n"


def patched(patch: bytes, base: dict[str, bytes] | None = None) -> dict[str, bytes]:
    return apply_patch(parse_patch(patch, "the.patch"), BASE if base is None else base, "the.patch")


def test_changes_new_files_and_deletions() -> None:
    patch = (
        HEAD + b"@@ -2,2 +2,3 @@\n two\n-three\n+drei\n+more\n"
        b"--- /dev/null\n+++ b/new/c.py\n@@ -0,0 +1 @@\n+c\n"
        b"--- a/deep/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    )
    assert patched(patch) == {"a.py": b"one\ntwo\ndrei\nmore\nfour\nfive\n", "new/c.py": b"c\n"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"a\r\nb\r\n", b"a\r\nc\r\n"),
        (b"a\r\n", b"a\n"),
        (b"a\nb", b"a\nb\n"),
        (b"a\nb\n", b"a\nb"),
        (b"a", b"b"),
        (b"a\nb", b"b\nb"),
        (b"", b"a"),
        (None, b""),
        (b"", None),
        (None, b"no line end"),
        (b"no line end", None),
        (b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n", b"--- a/x\n@@ -1 +1 @@\n\\ No newline at end of file\n"),
        (b"\x0c\n\xc2\x85\n\x0b\n", b"\x0c\n\xe2\x80\xa8\n\x0b\n"),
        (b"\n" * 30, b"\n" * 10 + b"x\n" + b"\n" * 20),
        (b"line\n" * 20_000, b"line\n" * 10_000 + b"new\n" + b"line\n" * 10_000),
    ],
)
def test_every_pair_of_files_has_its_patch(old: bytes | None, new: bytes | None) -> None:
    """Line ends of both kinds, and files without the last one."""
    before, after = ({} if content is None else {"f": content} for content in (old, new))
    patch = make_patch(before, after)
    assert patched(patch, before) == after
    assert make_patch(after, after) == b""


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (HEAD + b"@@ -1 +1 @@\n-two\n+x\n", "a.py, hunk 1 (line 3) is stale: its lines now begin at line 2, not 1"),
        (HEAD + b"@@ -1 +1 @@\n-none\n+x\n", "it expects 'none' at line 1, which is 'one'"),
        (HEAD + b"@@ -9 +9 @@\n-none\n+x\n", "it expects 'none' at line 9, which is ''"),
        (HEAD + b"@@ -1 +2 @@\n-one\n+x\n", "another line of the new file"),
        (HEAD + b"@@ -3,0 +4 @@\n+x\n", "only adds lines, and shows none of those around"),
        (HEAD + b"@@ -5 +5 @@\n-five\n+\n\\ No newline at end of file\n", "without content has a line end"),
        (b"--- /dev/null\n+++ b/" + "\u00e9".encode() * 101 + b"\n@@ -0,0 +1 @@\n+x\n", "a path inside the workspace"),
        (HEAD + b"@@ -3 +3 @@\n-three\n+x\n@@ -3 +3 @@\n-three\n+y\n", "hunk 2 (line 6) overlaps"),
        (HEAD + b"@@ -5 +5 @@\n-five\n\\ No newline at end of file\n+x\n", "stale"),
        (HEAD + b"@@ -2 +2 @@\n-two\n+x\n\\ No newline at end of file\n", "is not the last"),
        (HEAD + b"@@ -1 +1 @@\n one\n", "changes nothing"),
        (HEAD + b"@@ -1,2 +1 @@\n-one\n+x\n", "in the middle"),
        (HEAD + b"@@ -1 +1,0 @@\n-one\n two\n", "line 5: must begin with ---"),
        (HEAD + b"@@ -1 +1,2 @@\n-one\n-two\n+x\n+y\n", "other counts"),
        (HEAD + b"@@ -0 +0 @@\n-one\n+x\n", "counted from 1"),
        (HEAD + b"@@ -1 +1 @@ def f\n-one\n+x\n", "is not the head of a hunk"),
        (HEAD + b"@@ -1 +1 @@\n-one\n\\ no newline\n+x\n", "No newline"),
        (HEAD + b"@@ -1 +1 @@\n\\ No newline at end of file\n-one\n+x\n", "after a line of the hunk"),
        (HEAD + b"@@ -1 +1 @@\n-one\n+x", "does not end with a line end"),
        (HEAD + b"@@ -1 +1 @@\n-one\n+\0\n", "zero byte"),
        (HEAD.replace(b"\n", b"\r\n") + b"@@ -1 +1 @@\r\n-one\r\n+x\r\n", "and nothing after it"),
        (b"--- /dev/null\n+++ b/n\n@@ -5,0 +1 @@\n+x\n", "the file has 0 lines"),
        (b"--- /dev/null\n+++ b/n\n@@ -0,0 +2 @@\n+x\n", "line 2 of the new one"),
        (HEAD, "a.py has no hunk"),
        (b"", "line end"),
        (b"\n", "must begin with ---"),
        (b"diff --git a/a.py b/a.py\n" + HEAD, "must begin with ---"),
        (b"--- a/a.py\n+++ b/b.py\n", "a rename is a deletion and a new file"),
        (b"--- /dev/null\n+++ /dev/null\n", "the two names"),
        (b"--- a.py\n+++ a.py\n", "must be --- a/"),
        (b"--- a/a.py\t2026-01-01\n+++ b/a.py\n", "nothing after it"),
        (b"--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n", "a path inside the workspace"),
        (b"--- /dev/null\n+++ b//etc/x\n@@ -0,0 +1 @@\n+x\n", "a path inside the workspace"),
        (b"--- /dev/null\n+++ b/a/./x\n@@ -0,0 +1 @@\n+x\n", "a path inside the workspace"),
        (b"--- /dev/null\n+++ b/__pycache__/x\n@@ -0,0 +1 @@\n+x\n", "a path inside the workspace"),
        (b"--- /dev/null\n+++ b/\xff\n@@ -0,0 +1 @@\n+x\n", "not UTF-8"),
        (b"--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+x\n", "a.py exists already"),
        (b"--- /dev/null\n+++ b/a.py/x\n@@ -0,0 +1 @@\n+x\n", "a.py would be a file and a folder"),
        (b"--- /dev/null\n+++ b/deep\n@@ -0,0 +1 @@\n+x\n", "deep would be a file and a folder"),
        (b"--- a/deep/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- /dev/null\n+++ b/deep\n@@ -0,0 +1 @@\n+x\n",
         "deep would be a file and a folder"),
        (b"--- a/none\n+++ b/none\n@@ -1 +1 @@\n-x\n+y\n", "none does not exist"),
        (b"--- a/a.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n", "still has lines"),
        (b"--- a/a.py\n+++ /dev/null\n", "still has lines"),
        (HEAD + b"@@ -1 +1 @@\n-one\n+x\n" + HEAD + b"@@ -5 +5 @@\n-five\n+x\n", "a second part for a.py"),
        (HEAD + b"@@ -1 +1 @@\n-one\n+" + b"x" * 1_000_000 + b"\n", "larger than"),
    ],
)  # fmt: skip
def test_what_does_not_fit_exactly_is_refused(patch: bytes, said: str) -> None:
    with pytest.raises(UserError) as caught:
        patched(patch)
    assert said in str(caught.value)
    assert str(caught.value).startswith("the.patch: ")


def test_a_hunk_moves_only_to_the_one_place_of_its_lines() -> None:
    patch = make_patch(BASE, {**BASE, "a.py": b"one\ntwo\ndrei\nfour\nfive\nsix\n"})
    longer = {**BASE, "a.py": b"new\nnewer\n" + BASE["a.py"]}
    with pytest.raises(UserError, match="stale"):
        patched(patch, longer)
    moved = moved_patch(patch, longer, "the.patch")
    assert patched(moved, longer)["a.py"] == b"new\nnewer\none\ntwo\ndrei\nfour\nfive\nsix\n"
    assert moved_patch(moved, longer, "the.patch") == moved
    with pytest.raises(UserError, match=r"hunk 1 .* stand at 2 places"):
        moved_patch(patch, {"a.py": b"new\n" + BASE["a.py"] * 2}, "the.patch")
    with pytest.raises(UserError, match="at 0 places"):
        moved_patch(patch, {"a.py": b"other\n"}, "the.patch")
