"""Traces: the same files are one archive, whatever comes back is what was stored, and nothing leaves its folder."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.formats.plan import slug_of
from bench.store.branch import ResultsBranch
from bench.store.bundle import Bundle, StoredTrace
from bench.store.merge import Taken
from bench.store.trace_storage import (
    FolderStorage,
    PreparedTraces,
    TraceStorage,
    fetch,
    open_trace_storage,
    store_traces,
)
from bench.store.traces import (
    INLINE_BYTES,
    INLINE_RUN_BYTES,
    MAX_TRACE_BYTES,
    Packed,
    inflate,
    is_safe_name,
    is_wanted,
    key_of,
    pack,
    unpack,
)
from tests.helpers.records import START, make_check, make_record
from tests.helpers.store import BRANCH, bundle_of, git, make_bare, mldb, taken

FILES = {"calls.jsonl": b'{"seq": 1}\n' * 50, "out/notes.txt": b"hello", "agent.log": b"", "out/\u00e9t\u00e9": b"\x00"}


def test_the_same_files_are_the_same_archive_and_come_back(tmp_path: Path) -> None:
    packed = pack(FILES)
    assert packed == pack(dict(reversed(FILES.items())))
    assert packed.digest != pack({**FILES, "agent.log": b"x"}).digest
    raw = inflate(packed.data, packed.digest, "x")
    assert (len(raw), sha256_bytes(raw), packed.left_out) == (packed.size, packed.digest, 0)
    assert unpack(raw, tmp_path / "out") == sorted(FILES)
    for name, content in FILES.items():
        assert (tmp_path / "out" / name).read_bytes() == content
        assert (tmp_path / "out" / name).stat().st_mode & 0o7777 == 0o644
    with pytest.raises(UserError, match="exists"):
        unpack(raw, tmp_path / "out")


def test_what_is_too_large_is_left_out_and_counted() -> None:
    big = bytes(MAX_TRACE_BYTES // 2)
    packed = pack({"a": big, "b": big, "c": big, "small": b"x", "../up": b"x"}, left_out=1)
    assert packed.size <= MAX_TRACE_BYTES
    assert packed.left_out == 4
    many = pack({f"{number}": b"" for number in range(3000)})
    assert many.left_out == 1000


def test_an_agent_s_files_do_not_push_out_the_record_of_its_calls(tmp_path: Path) -> None:
    """Many files just below its size would fill the archive, and come before it by name, too."""
    calls, just_below = bytes(MAX_TRACE_BYTES // 8), bytes(MAX_TRACE_BYTES // 8 - 1)
    theirs = {f"out/{number:02}": just_below for number in range(9)}
    packed = pack({**theirs, "workspace.json": calls})
    assert packed.left_out == 3
    item = taken(tmp_path / "run", {**theirs, "workspace.json": calls})
    place = FolderStorage(tmp_path / "kept")
    (trace,) = keep([item], place).traces
    raw = inflate(place.get(trace.digest), trace.digest, "x")
    assert "workspace.json" in unpack(raw, tmp_path / "found")
    assert trace.left_out == 3


@pytest.mark.parametrize("url", ["folder", "memory", "file"])
def test_every_place_keeps_an_archive_once_and_gives_it_back(tmp_path: Path, url: str) -> None:
    where = {"folder": str(tmp_path / "t"), "memory": f"memory://{uuid.uuid4().hex}", "file": f"file://{tmp_path}/t"}
    place = open_trace_storage(where[url])
    packed = pack(FILES)
    stored = place.put(packed)
    assert place.put(packed) == stored
    trace = StoredTrace(cell="c", digest=packed.digest, size=packed.size, stored=len(packed.data), place=stored)
    raw = fetch(trace, place if url == "folder" else None)
    assert sha256_bytes(raw) == packed.digest
    if url == "folder":
        assert stored == f"folder:{packed.key}"
        with pytest.raises(UserError, match="name the folder with --traces"):
            fetch(trace, None)
    else:
        assert stored == f"{where[url]}/{packed.key}"
    if url != "memory":
        assert [path.name for path in (tmp_path / "t").rglob("*") if path.is_file()] == [packed.key.split("/")[-1]]


def test_places_that_do_not_work_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="contains credentials"):
        open_trace_storage("s3://key:secret@bucket/traces")
    with pytest.raises(UserError, match="Protocol not known"):
        open_trace_storage("nonsense://bucket")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        open_trace_storage(str(tmp_path / "file")).put(pack(FILES))
    with pytest.raises(UserError, match="cannot be read"):
        open_trace_storage(str(tmp_path)).get(pack(FILES).digest)
    with pytest.raises(UserError, match="FileNotFoundError"):
        open_trace_storage(f"memory://{uuid.uuid4().hex}").get(pack(FILES).digest)


def test_a_stored_archive_that_was_exchanged_is_refused(tmp_path: Path) -> None:
    packed = pack(FILES)
    place = FolderStorage(tmp_path)
    place.put(packed)
    path = tmp_path / packed.key
    for content, said in (
        (pack({"x": b"y"}).data, "does not match its digest"),
        (packed.data[:-9], "does not match its digest"),
        (b"PK\x03\x04", "is not a gzip archive"),
        (b"", "does not match its digest"),
    ):
        path.write_bytes(content)
        trace = StoredTrace(cell="c", digest=packed.digest, size=1, stored=1, place="folder:x")
        with pytest.raises(UserError, match=said):
            fetch(trace, place)


def test_a_bomb_is_not_blown_up() -> None:
    bomb = gzip.compress(bytes(1 << 20), mtime=0)
    # Many members behind each other: a gigabyte in a megabyte. One member alone does as well.
    single = gzip.compress(bytes(MAX_TRACE_BYTES * 4), compresslevel=9, mtime=0)
    tracemalloc.start()
    for data in (bomb * 1000, single):
        with pytest.raises(UserError, match=r"unpacks to more than|match its digest"):
            inflate(data, sha256_bytes(b""), "x")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * MAX_TRACE_BYTES


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return file.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def lying_size() -> bytes:
    info = tarfile.TarInfo("huge")
    info.size = 1 << 40
    return info.tobuf() + bytes(1024)


HOSTILE: dict[str, Callable[[], bytes]] = {
    "up": lambda: archive((member("../escaped"), b"x")),
    "up in the middle": lambda: archive((member("a/../../escaped"), b"x")),
    "absolute": lambda: archive((member("/tmp/mldb-escaped"), b"x")),
    "windows": lambda: archive((member("..\\escaped"), b"x")),
    "drive": lambda: archive((member("C:escaped"), b"x")),
    "link": lambda: archive((member("a", tarfile.SYMTYPE, "/tmp"), b""), (member("a/escaped"), b"x")),
    "hard link": lambda: archive((member("a", tarfile.LNKTYPE, "/etc/passwd"), b"")),
    "device": lambda: archive((member("a", tarfile.CHRTYPE), b"")),
    "pipe": lambda: archive((member("a", tarfile.FIFOTYPE), b"")),
    "folder": lambda: archive((member("a", tarfile.DIRTYPE), b"")),
    "twice": lambda: archive((member("a"), b"1"), (member("a"), b"2")),
    "twice but for case": lambda: archive((member("a"), b"1"), (member("A"), b"2")),
    "file and folder": lambda: archive((member("a"), b"1"), (member("a/b"), b"2")),
    "folder and file": lambda: archive((member("a/b"), b"1"), (member("A"), b"2")),
    "escape in the name": lambda: archive((member("a\x1b[2Jb"), b"1")),
    "line break in the name": lambda: archive((member("a\n::error::b"), b"1")),
    "deep": lambda: archive((member("/".join("a" * 40)), b"1")),
    "long": lambda: archive((member("a" * 300), b"1")),
    "empty part": lambda: archive((member("a//b"), b"1")),
    "many": lambda: archive(*((member(str(number)), b"") for number in range(2500))),
    "lying size": lying_size,
    "no archive": lambda: b"x" * 2048,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_writes_nothing_anywhere(tmp_path: Path, kind: str) -> None:
    raw = HOSTILE[kind]()
    with pytest.raises(UserError):
        unpack(raw, tmp_path / "deep" / "target")
    assert list(tmp_path.iterdir()) == []
    assert not Path("/tmp/mldb-escaped").exists()


def test_safe_names() -> None:
    assert all(is_safe_name(name) for name in ("a", "a/b.txt", "out/\u00e9", "a b", "...", "a..b"))
    assert not any(
        is_safe_name(name) for name in ("", "/", "a/", "./a", "a/..", "\\\\server", "c:\\x", "\u202eabc", "\0")
    )


def test_all_failures_and_the_same_sample_of_successes_are_kept() -> None:
    failed = make_record(checks=[make_check("a", 0.0)])
    for record in (failed, make_record(outcome="infra"), make_record(outcome="interrupted")):
        assert is_wanted(record, 0.0)
    passed = [make_record(trial=number) for number in range(1, 2001)]
    assert not any(is_wanted(record, 0.0) for record in passed)
    assert all(is_wanted(record, 1.0) for record in passed)
    kept = [record.cell for record in passed if is_wanted(record, 0.1)]
    assert kept == [record.cell for record in passed if is_wanted(record, 0.1)]
    assert 150 <= len(kept) <= 250, "ten per cent of 2,000, give or take what chance gives and takes"
    assert set(kept) <= {record.cell for record in passed if is_wanted(record, 0.3)}, "a larger sample has the smaller"


def keep(items: list[Taken], place: TraceStorage | None, sample: float = 1.0) -> PreparedTraces:
    return store_traces(items, place, sample)


def test_a_cell_s_trace_is_what_its_record_names_and_nothing_else(tmp_path: Path) -> None:
    run, place = tmp_path / "run", FolderStorage(tmp_path / "kept")
    item = taken(run, {"calls.jsonl": b"1\n", "out/x": b"2"})
    (run / "traces" / slug_of(item.record.cell) / "extra").write_bytes(b"not in the record")
    kept = keep([item], place)
    assert kept.refused == []
    (trace,) = kept.traces
    assert (trace.cell, trace.left_out) == (item.record.cell, 0)
    raw = inflate(place.get(trace.digest), trace.digest, "x")
    assert unpack(raw, tmp_path / "out") == ["calls.jsonl", "out/x"]


def test_the_branch_names_a_trace_in_its_manifest_and_no_file_of_the_run_folder(tmp_path: Path) -> None:
    item = taken(tmp_path / "run", {"calls.jsonl": b"1\n"})
    kept = keep([item], FolderStorage(tmp_path / "kept"))
    branch = ResultsBranch(tmp_path / "results.git")
    branch.ensure()
    bundle = Bundle(item.record.provenance.run, 1, [item.record], START, tuple(kept.traces))
    stored = branch.commit(bundle)
    (record,) = branch.records()
    assert item.record.artifacts and record == item.record.model_copy(update={"artifacts": []})
    assert stored.new and not branch.commit(bundle).new, "what lies there is what would be written again"


def test_a_file_that_is_not_what_the_record_says_is_refused_and_the_rest_kept(tmp_path: Path) -> None:
    run = tmp_path / "run"
    item = taken(run, {"a": b"1", "b": b"2", "c": b"3", "d": b"4"})
    folder = run / "traces" / slug_of(item.record.cell)
    (folder / "a").write_bytes(b"X")
    (folder / "b").unlink()
    (folder / "b").symlink_to("/etc/passwd")
    (folder / "c").write_bytes(b"3" * 100)
    kept = keep([item], FolderStorage(tmp_path / "kept"))
    assert [str(line).split(slug_of(item.record.cell))[1] for line in kept.refused] == [
        "/a: does not match the digest in its record",
        "/b: is a symbolic link",
        "/c: has 100 bytes, more than the 1 left for it",
    ]
    (trace,) = kept.traces
    raw = inflate((tmp_path / "kept" / key_of(trace.digest)).read_bytes(), trace.digest, "x")
    assert unpack(raw, tmp_path / "out") == ["d"]


def test_without_a_place_small_traces_go_inline_failures_first(tmp_path: Path) -> None:
    noise = bytes(byte for seed in range(1000) for byte in sha256_bytes(str(seed).encode())[7:].encode())
    items = [taken(tmp_path, {"a": noise[number : number + 12_000]}, trial=number + 1) for number in range(60)]
    failed = taken(tmp_path, {"a": noise[-12_000:]}, agent="zz", checks=[make_check("a", 0.0)])
    large = taken(tmp_path, {"a": noise}, case="large", checks=[make_check("a", 0.0)])
    kept = keep([*items, failed, large], None)
    assert kept.traces[0].cell == failed.record.cell
    assert large.record.cell not in {trace.cell for trace in kept.traces}
    assert sum(map(len, kept.inline.values())) <= INLINE_RUN_BYTES
    assert all(len(data) <= INLINE_BYTES for data in kept.inline.values())
    assert 10 < len(kept.traces) < 60
    assert {trace.place for trace in kept.traces} == {"inline"}
    assert set(kept.inline) == {f"traces/{key_of(trace.digest)}" for trace in kept.traces}


def test_the_command_lists_and_unpacks_what_was_kept(tmp_path: Path) -> None:
    from dataclasses import replace

    bare = make_bare(tmp_path / "results.git")
    run = tmp_path / "run"
    here = taken(run, {"calls.jsonl": b"inline\n"}, agent="aide")
    there = taken(run, {"calls.jsonl": b"elsewhere\n"}, agent="react")
    inline, stored = keep([here], None), keep([there], FolderStorage(tmp_path / "kept"))
    bundle = bundle_of([here.record, there.record])
    traces = [*inline.traces, *stored.traces]
    branch = ResultsBranch(bare)
    assert branch.commit(replace(bundle, traces=traces, inline=inline.inline)).new
    assert not branch.commit(bundle).new, "where traces went does not make another bundle"
    listed = mldb("results", "traces", f"file://{bare}", "--run", "night-1", cwd=tmp_path).stdout.splitlines()
    assert listed[0].startswith(f"{here.record.cell}  ")
    assert [line.split("  ")[-1].split(":")[0] for line in listed] == ["inline", "folder"]
    mldb("results", "traces", "results.git", "--run", "night-1", "--out", "out", "--traces", "kept", cwd=tmp_path)
    for item in (here, there):
        found = tmp_path / "out" / slug_of(item.record.cell) / "calls.jsonl"
        assert found.read_bytes() == (run / "traces" / slug_of(item.record.cell) / "calls.jsonl").read_bytes()
    for arguments, said in (
        (("--run", "night-2"), "no such run is stored"),
        (("--run", "night-1", "--cell", "zzz"), "no stored trace is of a cell with 'zzz'"),
        (("--run", "night-1", "--out", "out"), "exists"),
        (("--run", "night-1", "--out", "new"), "name the folder with --traces"),
    ):
        failed = mldb("results", "traces", "results.git", *arguments, cwd=tmp_path, status=2)
        assert said in failed.stderr
    assert mldb("results", "verify", "results.git", cwd=tmp_path).stdout.startswith("0 findings")
    assert "traces/" in git(bare, "ls-tree", "-r", "--name-only", BRANCH)


def test_the_same_inline_trace_of_another_compressor_is_no_conflict(tmp_path: Path) -> None:
    from dataclasses import replace

    bare = make_bare(tmp_path / "results.git")
    item = taken(tmp_path / "run", {"calls.jsonl": b"the same\n" * 50})
    kept = keep([item], None)
    (path, data), (trace,) = next(iter(kept.inline.items())), kept.traces
    other = gzip.compress(inflate(data, trace.digest, "x"), compresslevel=1, mtime=0)
    assert other != data
    branch = ResultsBranch(bare)
    branch.commit(replace(bundle_of(run="night-1"), traces=[trace], inline={path: other}))
    assert branch.commit(replace(bundle_of(run="night-2"), traces=[trace], inline={path: data})).new
    assert mldb("results", "verify", "results.git", cwd=tmp_path).stdout.startswith("0 findings")


def test_packed_names_its_place() -> None:
    packed = Packed("sha256:" + "ab" * 32, 1, b"", 0)
    assert packed.key == f"sha256/ab/{'ab' * 32}.tar.gz"
