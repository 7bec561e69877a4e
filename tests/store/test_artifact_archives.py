"""Archives of artifacts: what is unpacked lies below its folder and within its bounds, or nothing is taken."""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import Path

import pytest

from bench.base.errors import UserError
from bench.store.artifacts import Caps, unpack_artifact


def zipped(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def special(name: str, kind: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (kind | 0o777) << 16
    return info


def lying(content: bytes) -> bytes:
    """An archive whose entry says that it is small."""
    archive = bytearray(zipped(("a", content)))
    size = len(content).to_bytes(4, "little")
    return bytes(archive.replace(size, (5).to_bytes(4, "little")))


def test_plain_files_are_unpacked_where_they_belong(tmp_path: Path) -> None:
    archive = zipped(("run.json", b"{}"), ("cells/", b""), ("cells/a.json", b"[]"), ("traces/x/y.txt", b"text"))
    unpack_artifact(archive, tmp_path / "it", Caps())
    found = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"it/run.json": b"{}", "it/cells/a.json": b"[]", "it/traces/x/y.txt": b"text"}


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/x", "a//b", "./x", "a\\b", "C:/x", "x\ny", "x/" * 40 + "y", "a" * 300, "a\x1bb"]
)
def test_a_path_that_is_not_a_plain_one_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="is not a path inside of it") as caught:
        unpack_artifact(zipped((name, b"x")), tmp_path / "it", Caps())
    assert str(caught.value).isprintable()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_what_is_not_a_file_is_refused(tmp_path: Path, kind: int) -> None:
    with pytest.raises(UserError, match="is not a plain file"):
        unpack_artifact(zipped((special("x", kind), b"/etc/passwd")), tmp_path / "it", Caps())


@pytest.mark.parametrize("archive", [zipped(("a", bytes(50_000))), lying(bytes(50_000))], ids=["bomb", "lying bomb"])
def test_a_bomb_is_stopped_at_the_cap(tmp_path: Path, archive: bytes) -> None:
    with pytest.raises(UserError, match=r"unpacks to more than 10000 bytes|is not a whole zip archive"):
        unpack_artifact(archive, tmp_path / "it", Caps(records_bytes=10_000))
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= 10_000


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_unpacks_to_gigabytes_at_once_is_refused(tmp_path: Path, method: int) -> None:
    """Of bzip2, four kilobytes become four gigabytes in one step, before a byte is counted."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("a", bytes(64 << 20))
    with pytest.raises(UserError, match="is not packed as artifacts are"):
        unpack_artifact(buffer.getvalue(), tmp_path / "it", Caps())


def test_folders_count_as_files_do(tmp_path: Path) -> None:
    """Every file brings as many as its path has parts."""
    archive = zipped(*((f"{number}/b/c/d/e", b"") for number in range(5)))
    unpack_artifact(archive, tmp_path / "fits", Caps(entries=21))
    with pytest.raises(UserError, match="holds more than 10 folders"):
        unpack_artifact(archive, tmp_path / "it", Caps(entries=10))
    made = [path for path in (tmp_path / "it").rglob("*") if path.is_dir()]
    assert len(made) <= 10 + 4


def test_too_many_files_and_two_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds more than 5 files"):
        unpack_artifact(zipped(*((f"{number}", b"") for number in range(6))), tmp_path / "many", Caps(entries=5))
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = zipped(("a", b"1"), ("a", b"2"))
    with pytest.raises(UserError, match="is not a whole zip archive: FileExistsError"):
        unpack_artifact(twice, tmp_path / "twice", Caps())
    with pytest.raises(UserError, match="is not a whole zip archive"):
        unpack_artifact(zipped(("a", b"1"), ("a/b", b"2")), tmp_path / "both", Caps())


@pytest.mark.parametrize("cut", [0, 1, 10, 40, 90])
def test_a_torn_archive_is_refused(tmp_path: Path, cut: int) -> None:
    whole = zipped(("a", b"some content"))
    with pytest.raises(UserError, match="is not a whole zip archive"):
        unpack_artifact(whole[:cut], tmp_path / "it", Caps())
