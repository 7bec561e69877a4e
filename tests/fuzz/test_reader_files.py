"""What lies where a reader looks, and what the parsers of libraries meet: read, or a failed check, never more."""

from __future__ import annotations

import io
import json
import os
import pickle
import signal
import socket
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.casekit.picture_files import png
from bench.judge import Workspace, read_checkpoint, read_parquet, read_pictures, read_pretrained
from bench.judge.claims import csv_number, json_number
from bench.judge.files import Folder
from bench.judge.ran import Ran
from bench.judge.scene import Scene
from bench.judge.submissions import Numbers, submission
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.job import JobLimits
from tests.helpers.cells import ROOT, python, write_files
from tests.helpers.fuzz import Tally, damaged, fuzzed, in_a_small_machine

# --- what is not a readable file -------------------------------------------------------------------------------------


def reads(name: str) -> Callable[[Any, str], object]:
    return lambda ws, path: getattr(ws, name)(path)


_METHODS = ("text", "bytes", "sha256", "json", "jsonl", "csv", "npy", "npz", "safetensors")
READERS: dict[str, Callable[[Any, str], object]] = {
    **{name: reads(name) for name in _METHODS},
    "submission": lambda ws, path: submission(ws, path, ids={"i": [1]}, columns={"x": Numbers()}),
    "json_number": lambda ws, path: json_number(ws, path, "a"),
    "csv_number": lambda ws, path: csv_number(ws, path, "a"),
    "checkpoint": read_checkpoint,
    "parquet": read_parquet,
    "pictures": lambda ws, path: read_pictures(ws, [path]),
    "pretrained": read_pretrained,
}
# Each leads out of the folder, has no end, or blocks who opens it.
PLACES = ("absent", "link", "linked/x", "folder", "pipe", "socket", "holes", "x/y", "../x", "/etc/passwd", "", "a\0b",
          "n" * 300, "d/" * 3000 + "x", "\udcff", "\ud800")  # fmt: skip


class Apart(Workspace):
    """A workspace without a sandbox: what a reader asks of one is not asked for these files."""

    def __init__(self, root: Path) -> None:
        Folder.__init__(self, root)
        self._subject = None  # type: ignore[assignment]
        self._scene = None  # type: ignore[assignment]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("places")
    (root / "x").write_bytes(b"1")
    (root / "link").symlink_to("/etc/passwd")
    (root / "linked").symlink_to(root)
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
        # A terabyte that takes no place on the disk.
        with (root / "holes").open("wb") as file:
            file.truncate(1 << 40)
        yield root


@pytest.mark.parametrize("reader", sorted(READERS))
def test_a_place_that_is_not_a_file_within_the_bounds(places: Path, reader: str, tally: Tally) -> None:
    for place in PLACES:
        if (reader, place) == ("sha256", "holes"):
            # Its bound is 1,000 MiB as well, without the memory.
            continue
        with tally.example(AssertionError):
            READERS[reader](Apart(places), place)
    assert tally.refused == tally.examples


_UNREADABLE = """
import os, sys
from pathlib import Path
from bench.guest.kernel import Kernel
from bench.judge.files import Folder
root = Path(sys.argv[1])
(root / "secret").write_text("1")
(root / "closed").mkdir()
os.chmod(root / "secret", 0)
os.chmod(root / "closed", 0)
# So that permissions hold for the superuser, too.
Kernel().drop_capabilities()
folder = Folder(root)
texts = [lambda path=path: folder.text(path) for path in ("secret", "closed/x")]
for read in (*texts, lambda: folder.sha256("secret"), folder.files):
    try:
        read()
    except AssertionError as fault:
        print("refused:", fault)
"""


def test_what_a_command_has_closed_to_its_owner(tmp_path: Path) -> None:
    """Of a snapshot the modes are the runner's; a finished command leaves its own."""
    said = in_a_small_machine(_UNREADABLE, str(tmp_path)).splitlines()
    assert [line.partition(":")[0] for line in said] == ["refused"] * 4, said


def test_folders_deeper_than_a_path_may_be_long(tmp_path: Path) -> None:
    root = os.open(tmp_path, os.O_RDONLY)
    here = root
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    with pytest.raises(AssertionError, match="cannot be listed"):
        Folder(tmp_path).files()


# --- parsers of libraries, in their sandbox --------------------------------------------------------------------------

in_a_sandbox = settings(fuzzed, max_examples=fuzzed.max_examples // 20)
"""Each of these examples is a process with namespaces of its own."""


@st.composite
def scratched(draw: st.DrawFn, contents: st.SearchStrategy[bytes]) -> bytes:
    """Bytes of which a few are others, so that all lengths still hold."""
    data = bytearray(draw(contents))
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


def saved(content: Any, whole: bool = True) -> bytes:
    import torch

    stream = io.BytesIO()
    torch.save(content, stream, _use_new_zipfile_serialization=whole)
    return stream.getvalue()


def pickled_as_checkpoint(data: bytes) -> bytes:
    """A file of torch.save whose pickle is `data`."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in (("data.pkl", data), ("byteorder", b"little"), ("version", b"3\n")):
            archive.writestr(f"archive/{name}", content)
    return stream.getvalue()


def laughs(leaf: object, levels: int = 19) -> bytes:
    """Each level holds the one before ten times."""
    for _ in range(levels):
        leaf = [leaf] * 10
    return pickle.dumps(leaf, 2)


def table() -> bytes:
    import pyarrow
    import pyarrow.parquet

    stream = io.BytesIO()
    columns = {"i": [1, 2], "f": [0.5, None], "s": ["a", "b"], "d": pyarrow.array(["x", "y"]).dictionary_encode()}
    pyarrow.parquet.write_table(pyarrow.table(columns), stream)
    return stream.getvalue()


@pytest.fixture(scope="module")
def room(bubblewrap: BubblewrapSandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A workspace whose warm process has what the readers import."""
    folder = write_files(tmp_path_factory.mktemp("snapshot"), {
        "good.pt": saved({"w": __import__("torch").ones(2)}),
        "laughs.pt": pickled_as_checkpoint(laughs([])),
        "laughing.pt": pickled_as_checkpoint(laughs({})),
        "twice.pt": saved({"a": {"b": 1}, "a.b": 2}),
        "long.pt": pickled_as_checkpoint(pickle.dumps({"x" * (1 << 20): 1}, 2)),
        "odd.pt": pickled_as_checkpoint(pickle.dumps({"x\n\ud800": "\ud800", "y": float("nan"), "z": 10**600}, 2)),
    })  # fmt: skip
    limits = JobLimits(wall_s=60, memory_mb=1500, disk_mb=200)
    scene = Scene(
        snapshot=folder, original=folder, hidden=(folder,), journals={}, check=folder, profile="mini", seed=1,
        sandbox=bubblewrap, preload=("torch", "pyarrow.parquet"), limits=limits, call_s=10, grade_s=100_000,
    )  # fmt: skip
    made = Workspace(scene)
    yield made
    made.close()


ORIGINALS: dict[str, tuple[Callable[[], list[bytes]], Callable[..., object]]] = {
    "checkpoint": (
        lambda: [saved({"w": __import__("torch").arange(6.0), "n": 1}, whole) for whole in (True, False)],
        read_checkpoint,
    ),
    "parquet": (lambda: [table()], read_parquet),
    "pictures": (
        lambda: [png(numpy.arange(60, dtype=numpy.uint8).reshape(4, 5, 3))],
        lambda ws, path, within, max_mb: read_pictures(ws, [path], within=within, max_mb=max_mb),
    ),
}


_PARSER = """
import json, resource, signal, sys, time
from bench.judge import reader_driver
read, options = getattr(reader_driver, sys.argv[1]), json.loads(sys.argv[2])
if sys.argv[1] == "checkpoint":
    import torch
resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
print("ready", flush=True)
for path in sys.stdin:
    signal.setitimer(signal.ITIMER_VIRTUAL, 20)
    try:
        read([path.strip()], **options)
        print("read", flush=True)
    except Exception as fault:
        print("refused", flush=True)
"""
_OPTIONS: dict[str, dict[str, Any]] = {
    "checkpoint": {"wanted": None, "max_mb": 20},
    "parquet": {"columns": None, "max_rows": 1000, "max_mb": 20},
    "pictures": {"colour": True, "max_pixels": 10_000, "max_mb": 20},
}


class Parser:
    """The driver of the readers in a process with 2 GiB for data, and 20 seconds of its own time for each file."""

    def __init__(self, kind: str) -> None:
        self._command = python("-c", _PARSER, kind, json.dumps(_OPTIONS[kind]))
        self._process: subprocess.Popen[str] | None = None

    def read(self, path: Path) -> str:
        """`read`, `refused`, or the signal by which a library crashed."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            assert self._said() == "ready"
        assert self._process.stdin is not None
        print(path, file=self._process.stdin, flush=True)
        if said := self._said():
            return said
        code = self._process.wait()
        self.close()
        return signal.Signals(-code).name

    def _said(self) -> str:
        assert self._process is not None and self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(ORIGINALS))
def test_a_parser_ends_within_its_memory_and_time(tmp_path: Path, tally: Tally, kind: str) -> None:
    """The driver alone, many files a process: a crash of a library is the end of a sandbox, an endless one is not."""
    whole, parser = ORIGINALS[kind][0](), Parser(kind)

    @fuzzed
    @given(scratched(st.sampled_from(whole)) | damaged(st.sampled_from(whole)))
    def examine(content: bytes) -> None:
        (tmp_path / "file").write_bytes(content)
        with tally.example():
            said = parser.read(tmp_path / "file")
            tally.refused += said != "read"
            assert said in ("read", "refused", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE"), said

    try:
        examine()
    finally:
        parser.close()
    assert 0 < tally.refused < tally.examples


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(ORIGINALS))
def test_a_damaged_file_ends_in_its_sandbox(room: Workspace, tmp_path: Path, tally: Tally, kind: str) -> None:
    """The whole way of a check: sandbox, codec and validation."""
    make, read = ORIGINALS[kind]
    whole = make()

    @in_a_sandbox
    @given(scratched(st.sampled_from(whole)) | damaged(st.sampled_from(whole)))
    def examine(content: bytes) -> None:
        (tmp_path / "file").write_bytes(content)
        tally.examples += 1
        # The words of a library need not be one line.
        try:
            read(room, "file", within=Ran(tmp_path, 0, "", "", "", ""), max_mb=20)
        except AssertionError:
            tally.refused += 1

    examine()
    assert tally.refused


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("laughs.pt", "nested too deeply, or too large"),
        ("laughing.pt", "nested too deeply, or too large"),
        ("twice.pt", "the same name 'a.b'"),
        ("long.pt", "too long"),
    ],
)
def test_a_pickle_that_unfolds(room: Workspace, name: str, said: str) -> None:
    spent = room.spent[0]
    with pytest.raises(AssertionError, match=said):
        read_checkpoint(room, name)
    # Its own bounds end it, not the time that the case allows a call.
    assert room.spent[0] - spent < 5


@pytest.mark.slow
def test_odd_texts_of_a_checkpoint_are_values(room: Workspace) -> None:
    assert set(read_checkpoint(room, "odd.pt").values) == {"x\n\ud800", "y", "z"}
