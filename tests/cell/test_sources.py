"""Published data: fetched by digest, resumed, shared, and never in its place unless it is right."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import UserError
from bench.cell import SharedCache, SourceCache, Wanted
from bench.cell.download import download
from bench.cell.origins import HttpOrigin
from bench.cell.unpack import unpack
from bench.formats.case import Case, load_case
from bench.formats.case_sources import DataSource
from bench.formats.plan import Cell
from bench.runs import NotReady, require_ready
from tests.helpers.cells import ROOT, make_agent, make_case
from tests.helpers.command import mldb
from tests.helpers.file_server import FileServer, file_server

CONTENT = random.Random(1).randbytes(900_000)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server(CONTENT) as started:
        yield started


def fetch(server: FileServer, place: Path, **changes: Any) -> tuple[str, list[int], list[float]]:
    """Where the file came from, what was told of it, and how long it would have waited."""
    source = DataSource(**server.source(**changes))
    told: list[int] = []
    waits: list[float] = []
    origin = download(source, place, [HttpOrigin(source.url, timeout_s=10)], told.append, waits.append)
    return origin, told, waits


def test_a_stream_that_is_cut_is_gone_on_with(server: FileServer, tmp_path: Path) -> None:
    server.cut_after = 400_000
    origin, told, waits = fetch(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT and origin == server.url
    assert server.ranges == ["", "bytes=400000-", "bytes=800000-"]
    assert told == sorted(told) and told[-1] == len(CONTENT) and waits == [1.0, 1.0]
    assert fetch(server, tmp_path / "file")[0] == "" and len(server.ranges) == 3, "it is there"
    assert sorted(it.name for it in tmp_path.iterdir()) == [".file.lock", "file"]


def test_a_server_without_ranges_begins_again(server: FileServer, tmp_path: Path) -> None:
    server.knows_ranges, server.tells_length = False, False
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    fetch(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT and server.ranges == ["bytes=1000-"]


def test_what_may_pass_is_tried_again_and_what_does_not_is_told(server: FileServer, tmp_path: Path) -> None:
    server.statuses = [503, 429, 500]
    assert fetch(server, tmp_path / "file")[2] == [2.0, 4.0, 8.0]
    server.statuses = [404]
    with pytest.raises(UserError, match=r"HTTP 404 \(check address and network"):
        fetch(server, tmp_path / "other")
    server.statuses = [503] * 9
    with pytest.raises(UserError, match="HTTP 503"):
        fetch(server, tmp_path / "other")
    assert len(server.statuses) == 4, "five tries without a byte"


def test_wrong_bytes_are_never_in_their_place(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"its sha256 is {server.source()['sha256']}, case.yaml says {'0' * 64}"):
        fetch(server, tmp_path / "file", sha256="0" * 64)
    assert [it.name for it in tmp_path.iterdir()] == [".file.lock"]
    # The beginning of another file: once more from the beginning, and it is right.
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    fetch(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT and server.ranges[-2:] == ["bytes=1000-", ""]


@pytest.mark.parametrize("tells_length", [True, False])
@pytest.mark.parametrize(("size", "told"), [(899_999, "more than|900,000 bytes"), (900_001, "900,000 bytes|shorter")])
def test_a_wrong_size_is_refused(server: FileServer, tmp_path: Path, tells_length: bool, size: int, told: str) -> None:
    server.tells_length = tells_length
    with pytest.raises(UserError, match=told):
        fetch(server, tmp_path / "file", bytes=size)
    assert not (tmp_path / "file").exists()
    assert not tells_length or server.ranges == [""], "by its head alone"


def stored(root: Path, server: FileServer, where: str) -> tuple[SourceCache, Wanted]:
    """The file on one machine, and in the shared cache `where`."""
    wanted = Wanted("a_case", "data", DataSource(**server.source()))
    cache = SourceCache(root, SharedCache.at(where))
    cache.fetch([wanted])
    assert cache.shared is not None
    assert cache.shared.put(wanted.source.sha256, wanted.source.bytes, cache.archive(wanted.source))
    assert not cache.shared.put(wanted.source.sha256, wanted.source.bytes, cache.archive(wanted.source))
    return cache, wanted


@pytest.mark.parametrize("where", ["{tmp}/shared", "memory://shared/{name}"])
def test_another_machine_takes_it_from_the_shared_cache(server: FileServer, tmp_path: Path, where: str) -> None:
    where = where.format(tmp=tmp_path, name=tmp_path.name)
    cache, wanted = stored(tmp_path / "one", server, where)
    asked = len(server.ranges)
    other = SourceCache(tmp_path / "two", cache.shared)
    other.archive(wanted.source).parent.mkdir(parents=True)
    other.archive(wanted.source).with_name("archive.part").write_bytes(CONTENT[:5000])
    for look in other.require([wanted]):
        look()
    assert other.fetch([wanted])["a_case/data"].startswith(where) and len(server.ranges) == asked
    assert (other.files(wanted.source) / "archive.tar.gz").read_bytes() == CONTENT


def test_a_damaged_shared_cache_is_passed_over(server: FileServer, tmp_path: Path) -> None:
    cache, wanted = stored(tmp_path / "one", server, str(tmp_path / "shared"))
    path = next(it for it in (tmp_path / "shared").rglob("*") if it.is_file())
    path.write_bytes(CONTENT[:-1] + b"?")
    other = SourceCache(tmp_path / "two", cache.shared)
    assert other.fetch([wanted]) == {"a_case/data": server.url}
    assert other.is_there(wanted.source)


def test_a_mirror_is_read_and_never_written(server: FileServer, tmp_path: Path) -> None:
    wanted = Wanted("a_case", "data", DataSource(**server.source(url="http://127.0.0.1:9/gone")))
    cache = SourceCache(tmp_path, SharedCache.at(server.url))
    key = f"sha256/{wanted.source.sha256[:2]}/{wanted.source.sha256}"
    assert cache.fetch([wanted]) == {"a_case/data": f"{server.url}/{key}"}
    assert cache.shared is not None
    with pytest.raises(UserError, match="can only be read"):
        cache.shared.put(wanted.source.sha256, 1, tmp_path)
    with pytest.raises(UserError, match="contains credentials"):
        SharedCache.at("s3://key:secret@bucket/data")


# --- what is in an archive -------------------------------------------------------------------------------------------


def tar_of(entries: dict[str, bytes], link: str = "") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in entries.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        if link:
            entry = tarfile.TarInfo("link")
            entry.type, entry.linkname = tarfile.SYMTYPE, link
            archive.addfile(entry)
    return stream.getvalue()


def zip_of(entries: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return stream.getvalue()


def unpacked(folder: Path, content: bytes, how: str, **changes: Any) -> dict[str, bytes]:
    archive = folder / "archive"
    archive.write_bytes(content)
    facts = {"url": "https://example.org/a/some.csv.gz", "sha256": "0" * 64, "licence": "CC0-1.0", "unpacked_mb": 1}
    unpack(DataSource(**{**facts, "bytes": len(content), "unpack": how, **changes}), archive, folder / "files")
    return {
        str(it.relative_to(folder / "files")): it.read_bytes() for it in (folder / "files").rglob("*") if it.is_file()
    }


@pytest.mark.parametrize(
    ("how", "content", "found"),
    [
        ("tar", tar_of({"a/b.bin": b"1", "./c": b"2"}), {"a/b.bin": b"1", "c": b"2"}),
        ("zip", zip_of({"a/": b"", "a/b.bin": b"1"}), {"a/b.bin": b"1"}),
        ("gzip", gzip.compress(b"x,y"), {"some.csv": b"x,y"}),
        ("no", b"plain", {"some.csv.gz": b"plain"}),
    ],
    # Archives hold the time at which they were made, which is another one in each process of the tests.
    ids=["tar", "zip", "gzip", "plain"],
)
def test_archives_of_each_kind(tmp_path: Path, how: str, content: bytes, found: dict[str, bytes]) -> None:
    assert unpacked(tmp_path, content, how) == found


@pytest.mark.parametrize(
    ("how", "content", "told"),
    [
        ("tar", tar_of({"../out": b"1"}), "leads out of it"),
        ("tar", tar_of({"/out": b"1"}), "leads out of it"),
        ("tar", tar_of({}, link="/etc/passwd"), "is not a file"),
        ("zip", zip_of({"a/../../out": b"1"}), "leads out of it"),
        ("tar", tar_of({"bomb": bytes(2 << 20)}), "holds more than 1,048,576 bytes"),
        ("gzip", gzip.compress(bytes(2 << 20)), "holds more than 1,048,576 bytes"),
        ("tar", b"no archive at all", "cannot be unpacked"),
        ("zip", b"no archive at all", "cannot be unpacked"),
        ("gzip", gzip.compress(CONTENT)[:-9], "cannot be unpacked"),
    ],
    ids=["parent", "root", "link", "zip parent", "tar bomb", "gzip bomb", "no tar", "no zip", "cut off"],
)
def test_what_an_archive_may_not_hold(tmp_path: Path, how: str, content: bytes, told: str) -> None:
    with pytest.raises(UserError, match=told):
        unpacked(tmp_path, content, how)
    assert sorted(it.name for it in tmp_path.iterdir()) == ["archive"]


# --- cases -----------------------------------------------------------------------------------------------------------

DATA = """
def build(public, hidden, profile, seed, sources=None):
    if profile == "full":
        (public / "given.txt").write_bytes((sources / "words" / "list" / "words.txt").read_bytes()[:10])
        (hidden / "all.txt").write_bytes((sources / "words" / "list" / "words.txt").read_bytes())
"""
CHECK = '''
from bench.judge import check

@check(required=True)
def the_words_are_known(ws):
    """The answer gives the words of the published list."""
    if ws.profile == "full":
        assert ws.text("given.txt") == ws.hidden("all.txt").read_bytes()[:10].decode()
    assert ws.call("answer:double", 3) == 6
'''
WORDS = tar_of({"list/words.txt": b"published words"})


def case_with_sources(root: Path, server: FileServer, **changes: Any) -> Case:
    sources = {"full": {"words": server.source(unpack="tar", **changes)}}
    facts = {"profiles": {"mini": {}, "full": {}}, "sources": sources, "wrong": {}}
    return make_case(root, {"data.py": DATA, "check.py": CHECK}, **facts)


def run(root: Path, *words: str, name: str = "r", **variables: str) -> subprocess.CompletedProcess[str]:
    cases = [*("--cases", str(root / "cases")), *("--agent", "oracle", "--case", "double_it", "--profile", "full")]
    command = [sys.executable, "-m", "bench", "run", *cases, "--sandbox", "process", "--out", str(root / "runs")]
    env = {**os.environ, "ML_DEV_BENCH_CACHE": str(root / "cache"), **variables}
    done = [*command, "--name", name, "--suite", "every", *words]
    return subprocess.run(done, capture_output=True, text=True, env=env, timeout=120, check=False, cwd=ROOT)


def write_suite(root: Path) -> None:
    suite = {"schema": 1, "id": "every", "version": "2026.11", "title": "Every", "cases": ["double_it"]}
    (root / "cases/suites").mkdir()
    (root / "cases/suites/every.yaml").write_text(json.dumps(suite))


@pytest.mark.slow
def test_a_shard_fetches_what_its_plan_did_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ML_DEV_BENCH_CACHE", str(tmp_path / "cache"))
    with file_server(WORDS) as server:
        case_with_sources(tmp_path / "cases", server)
        write_suite(tmp_path)
        cases = ["--cases", str(tmp_path / "cases")]
        asked = ["agents=oracle", "suites=every", "profiles=full", "trials=1"]
        planned = mldb("plan", *asked, *cases, "--sandbox", "process", "--out", tmp_path / "plan.json")
        assert planned.returncode == 0, planned.stderr
        assert server.ranges == [], "a plan is made on another machine"
        shard = json.loads((tmp_path / "plan.json").read_text())["shards"][0]["id"]
        words = ["run-shard", str(tmp_path / "plan.json"), shard, *cases, "--out", str(tmp_path / "runs")]
        done = mldb(*words, "--sandbox", "process")
        assert done.returncode == 0, done.stderr
        assert f"fetched double_it/words from {server.url}" in done.stderr


@pytest.mark.slow
def test_a_case_of_published_data_runs_end_to_end(tmp_path: Path) -> None:
    with file_server(WORDS) as server:
        case_with_sources(tmp_path / "cases", server)
        write_suite(tmp_path)
        done = run(tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"fetched double_it/words from {server.url}" in done.stderr and "1 of 1 graded" in done.stdout
        assert len(server.whole_downloads()) == 1
        server.statuses = [404] * 99
        assert run(tmp_path, name="again").returncode == 0, "everything is here"
        (tmp_path / "cache/sources").rename(tmp_path / "gone")
        refused = run(tmp_path, name="third")
        assert refused.returncode == 2 and not (tmp_path / "runs/third").exists()
        assert "data of double_it/words: cannot be fetched" in refused.stderr and "HTTP 404" in refused.stderr


def test_what_is_missing_is_named_before_the_first_cell(tmp_path: Path) -> None:
    with file_server(WORDS) as server:
        agent = make_agent(tmp_path, "")
        big = case_with_sources(tmp_path / "big", server, bytes=10**13)
        cells = [Cell(agent, {}, case.for_profile("full"), "full", 1) for case in (big,)]
        with pytest.raises(NotReady, match=r"data of double_it/words takes .* GB are free") as caught:
            require_ready(cells, None, None, cache=tmp_path / "cache")
        assert "case.yaml says 10,000,000,000,000" in str(caught.value)
        # On a machine that skips the cell nothing is fetched, and nothing is missing.
        needy = make_case(
            tmp_path / "needy", {"data.py": DATA}, profiles={"full": {"needs": {"gpu": True}}},
            sources={"full": {"words": server.source(bytes=10**13)}},
        )  # fmt: skip
        require_ready([Cell(agent, {}, needy.for_profile("full"), "full", 1)], None, None, cache=tmp_path / "cache")


def test_only_the_bytes_make_another_series_of_results(tmp_path: Path) -> None:
    with file_server(WORDS) as server:
        one = case_with_sources(tmp_path / "one", server)
        moved = case_with_sources(tmp_path / "two", server, url="https://example.org/x", licence="another one")
        other = case_with_sources(tmp_path / "three", server, sha256="0" * 64)
        assert one.digest == moved.digest != other.digest
    with pytest.raises(UserError, match=r"`sources\.full`: the case does not have this profile"):
        make_case(tmp_path / "four", sources={"full": {}})
    assert load_case(one.folder).spec.sources["full"]["words"].unpack == "tar"


def fetching(root: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench", "cases", "fetch", "double_it", "--cases", str(root / "cases"), *words]
    env = {**os.environ, "ML_DEV_BENCH_CACHE": str(root / "cache")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=ROOT)


@pytest.mark.slow
def test_the_command_fetches_once_for_two_processes_and_fills_the_cache(tmp_path: Path) -> None:
    with file_server(tar_of({"list/words.txt": CONTENT})) as server:
        case_with_sources(tmp_path / "cases", server)
        both = [fetching(tmp_path, "--cache", str(tmp_path / "shared")) for _ in range(2)]
        said = sorted(process.communicate(timeout=60)[0] for process in both)
        assert [process.returncode for process in both] == [0, 0]
        assert server.sent <= len(server.content) + 2, "one download, and two looks"
        assert "CC0-1.0; fetched from" in said[0] + said[1] and "was here" in said[0] + said[1]
        assert [it.stat().st_size for it in (tmp_path / "shared").rglob("*") if it.is_file()] == [len(server.content)]


@pytest.mark.slow
def test_a_killed_download_is_gone_on_with(tmp_path: Path) -> None:
    with file_server(tar_of({"list/words.txt": CONTENT})) as server:
        case_with_sources(tmp_path / "cases", server)
        server.stall_after = 600_000
        process = fetching(tmp_path)
        part = next(iter(_awaited(tmp_path / "cache", 500_000)))
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        have = part.stat().st_size
        server.stall_after = None
        process = fetching(tmp_path)
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert server.whole_downloads() == ["", f"bytes={have}-"] and "fetched from" in out
        files = {it.name for it in (tmp_path / "cache").rglob("*") if it.is_file() and not it.name.startswith(".")}
        assert files == {"archive", "words.txt"}


def _awaited(cache: Path, size: int) -> list[Path]:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = [it for it in cache.rglob("*.part") if it.stat().st_size >= size]
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("nothing was downloaded")


def test_a_case_without_published_data_is_told_so(tmp_path: Path) -> None:
    make_case(tmp_path / "cases")
    done = mldb("cases", "fetch", "double_it", "--cases", tmp_path / "cases")
    assert done.returncode == 2 and "no published data is named for the profile full" in done.stderr
