"""Binary files of an agent are read in a sandbox, without its modules and within bounds; arrays come back."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from bench import judge
from bench.casekit.picture_files import png
from bench.judge import Workspace, read_checkpoint, read_parquet, read_pictures, read_pretrained
from bench.judge.ran import Ran
from bench.judge.scene import Scene
from bench.judge.subject import SubjectError
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.job import JobLimits, Sandbox
from tests.helpers.arrays import npy, tensor, tensors
from tests.helpers.cells import write_files

# Would be imported in place of what the readers need, if they could see it.
PLANTED = {f"{name}.py": "raise SystemExit('the reader met a module of the workspace')\n" for name in (
    "torch", "numpy", "pyarrow", "zlib", "struct", "pickletools", "sitecustomize", "model")}  # fmt: skip
PLANTED["PIL/__init__.py"] = PLANTED["model.py"]
RNG = numpy.random.default_rng(1)
PICTURE = RNG.integers(0, 256, (9, 7, 3)).astype(numpy.uint8)


def saved(content: Any) -> bytes:
    import torch

    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


def table_of(**columns: Any) -> bytes:
    import pyarrow
    import pyarrow.parquet

    stream = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), stream)
    return stream.getvalue()


def png_with(width: int, height: int, body: bytes, colour: int = 2, extra: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    pieces = [(b"IHDR", header), (b"IDAT", body), (b"IEND", b"")]
    parts = [struct.pack(">I", len(it)) + kind + it + struct.pack(">I", zlib.crc32(kind + it)) for kind, it in pieces]
    return b"\x89PNG\r\n\x1a\n" + parts[0] + extra + parts[1] + parts[2]


class Runs:
    """As a pickle, it leaves a file wherever it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("/tmp/mldb-a-pickle-was-run"),))


def deflated(size_mb: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("archive/data.pkl", "w") as file:
        for _ in range(size_mb):
            file.write(bytes(1 << 20))
    return stream.getvalue()


def absurd_rows() -> bytes:
    """Ten million equal values, which a dictionary and run lengths make a few kilobytes."""
    import pyarrow

    places = numpy.zeros(10_000_000, numpy.int8)
    return table_of(x=pyarrow.DictionaryArray.from_arrays(places, pyarrow.array(["x" * 99])))


def opened(folder: Path, sandbox: Sandbox, preload: tuple[str, ...], memory_mb: int = 1500) -> Workspace:
    limits = JobLimits(wall_s=60, memory_mb=memory_mb, disk_mb=200)
    scene = Scene(
        snapshot=folder, original=folder, hidden=(folder,), journals={}, check=folder, profile="mini", seed=1,
        sandbox=sandbox, preload=preload, limits=limits, call_s=30, grade_s=300,
    )  # fmt: skip
    return Workspace(scene)


def linear() -> Any:
    import torch

    return torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.BatchNorm1d(1))


def odd_states() -> dict[str, tuple[Any, str]]:
    """State dictionaries that no model loads, and what is said of each."""
    import torch

    held: dict[str, tuple[Any, str]] = {
        "plain": (3, "int"), "text": ("x", "str"), "none": (None, "NoneType"), "octets": (b"x" * 1000, "bytes"),
        "dictionary": ({}, "empty dict"), "list": ([], "empty list"), "tuple": ((), "empty tuple"),
        "kind": (torch.float32, "dtype"), "below": ({"deep": None}, "NoneType"),
    }  # fmt: skip
    found: dict[str, tuple[Any, str]] = {
        name: (linear().state_dict() | {"more": value}, rf"'model\.more(\.deep)?' is not a tensor \({said}\)")
        for name, (value, said) in held.items()
    }
    found["number"] = ({5: torch.ones(1)}, r"'model\.5' is not one of its own keys")
    for name, value in (
        ("metadata", 5), ("modules", {"0": 5}), ("versions", {"0": {"version": "new"}}), ("keys", {5: {"version": 1}}),
        ("much", {"0": {"version": 1, "more": [1]}}),
    ):  # fmt: skip
        state = linear().state_dict()
        state._metadata = value
        found[name] = (state, r"'model\._metadata' is not a tensor \(an attribute, (int|dict)\)")
    state = linear().state_dict()
    state.note = b"x"
    found["attribute"] = (state, r"'model\.note' is not a tensor \(an attribute, bytes\)")
    return found


@pytest.fixture(scope="module")
def checkpoints(bubblewrap: BubblewrapSandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A workspace with files of torch.save, whose warm process has imported torch."""
    torch = pytest.importorskip("torch")
    weights = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.tensor(2.5), "n": torch.tensor([3])}
    content = {"model": weights, "epoch": 3, "best": numpy.float64(0.5), "optimizer": {"state": {0: torch.ones(2)}}}
    deep: Any = torch.ones(1)
    for _ in range(25):
        deep = [deep]
    folder = write_files(tmp_path_factory.mktemp("snapshot"), PLANTED | {
        "good.pt": saved(content | {"half": torch.ones(2, dtype=torch.bfloat16)}),
        "model.pt": saved(torch.nn.Linear(1, 1)),
        "runs.pt": saved({"a": Runs()}),
        "wide.pt": saved({"a": torch.zeros(1).expand(1 << 36)}),
        "zeros.pt": deflated(400),
        "deep.pt": saved({"a": deep}),
        "text.pt": b"not a checkpoint",
        "flat.pt": saved({"model": {"a.weight": torch.ones(2)}, "more": {"b": [torch.ones(1)]}}),
        "nested.pt": saved({"model": {"a": {"weight": torch.ones(2)}}}),
        "listed.pt": saved({"model": [torch.ones(2)]}),
        "beside.pt": saved({"model": {"a.weight": torch.ones(2), "b": {"weight": torch.ones(2)}}}),
        "above.pt": saved({"model.a.weight": torch.ones(2)}),
        **{f"odd/{name}": saved({"model": it, "epoch": 3, "schedule": None}) for name, (it, _) in odd_states().items()},
        "own.pt": saved(linear().state_dict()),
        "empty.pt": saved({}),
        "old/config.json": "{}", "old/pytorch_model.bin": saved({"w": torch.ones(3)}),
    })  # fmt: skip
    made = opened(folder, bubblewrap, ("torch",))
    yield made
    made.close()


@pytest.fixture(scope="module")
def ws(bubblewrap: BubblewrapSandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A workspace with tables, pictures, arrays and model folders."""
    pyarrow = pytest.importorskip("pyarrow")
    folder = write_files(tmp_path_factory.mktemp("snapshot"), PLANTED | {
        "good.parquet": table_of(
            i=numpy.arange(4), f=[1.0, None, 2.5, 4.0], s=["a", None, "c", "d"], k=pyarrow.array([1, None, 3, 4]),
            d=pyarrow.array(["x", "y", "x", "y"]).dictionary_encode(), b=[True, False, True, None]),
        "lists.parquet": table_of(i=[[1], [2]]),
        "rows.parquet": absurd_rows(),
        "text.parquet": b"PAR1" + bytes(50) + b"PAR1",
        "rgb.png": png(PICTURE), "grey.png": png(PICTURE[..., 0]),
        "huge.png": png_with(1 << 30, 1 << 30, zlib.compress(b"")),
        "bomb.png": png_with(1000, 1000, zlib.compress(bytes(300 << 20))),
        "short.png": png_with(30, 30, zlib.compress(b"x")),
        "none.png": b"\x89PNG\r\n\x1a\n",
        "photo.jpg": b"\xff\xd8\xff\xe0" + bytes(100), "text.pt": b"not a picture",
        "hf/config.json": json.dumps({"hidden_size": 4}),
        "hf/model.safetensors": tensors({"w": tensor("F32", (2,), (0, 8))}, numpy.array([1, 2], "<f4").tobytes()),
        "shards/config.json": "{}",
        "shards/model.safetensors.index.json": json.dumps({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}),
        "shards/1.safetensors": tensors({"a": tensor("F32", (1,), (0, 4))}, bytes(4)),
        "shards/2.safetensors": tensors({"b": tensor("I8", (1,), (0, 1))}, bytes(1)),
        "lost/config.json": "{}",
        "lost/model.safetensors.index.json": json.dumps({"weight_map": {"a": "../hf/model.safetensors"}}),
        "good.npy": npy(numpy.arange(6).reshape(2, 3)), "objects.npy": npy(numpy.array([{}]), allow_pickle=True),
    })  # fmt: skip
    made = opened(folder, bubblewrap, ("pyarrow.parquet",))
    yield made
    made.close()


@pytest.mark.slow
def test_a_checkpoint_is_names_shapes_values_and_arrays(checkpoints: Workspace) -> None:
    found = read_checkpoint(checkpoints, "good.pt")
    assert found.shapes["model.a.weight"] == (2, 3)
    assert (found.shapes["model.a.bias"], found.dtypes["half"], found.dtypes["model.n"]) == ((), "bfloat16", "int64")
    assert found.values == {"epoch": 3, "best": 0.5}
    assert found.below("model")["a.weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (found.arrays["model.a.bias"].shape, float(found.arrays["model.a.bias"])) == ((), 2.5)
    assert found.arrays["optimizer.state.0"].tolist() == [1, 1]
    some = read_checkpoint(checkpoints, "good.pt", wanted=["model.n"])
    assert (sorted(some.arrays), len(some.shapes)) == (["model.n"], 5)


@pytest.mark.slow
def test_a_state_dictionary_has_its_tensors_side_by_side(checkpoints: Workspace) -> None:
    """Of others the dotted names are the same, and no model loads them."""
    assert list(read_checkpoint(checkpoints, "flat.pt").below("model")) == ["a.weight"]
    for name in ("nested", "listed", "beside", "above"):
        with pytest.raises(AssertionError, match="model is not a state dictionary"):
            read_checkpoint(checkpoints, f"{name}.pt").below("model")
    assert list(read_checkpoint(checkpoints, "above.pt").below("")) == ["model.a.weight"]
    with pytest.raises(AssertionError, match="the file is not a state dictionary"):
        read_checkpoint(checkpoints, "flat.pt").below("")


@pytest.mark.slow
def test_a_state_dictionary_holds_nothing_else_than_tensors(checkpoints: Workspace) -> None:
    for name, (_, message) in odd_states().items():
        found = read_checkpoint(checkpoints, f"odd/{name}")
        assert (found.values["epoch"], found.others["schedule"]) == (3, "NoneType")
        with pytest.raises(AssertionError, match=f"^model is not a state dictionary: {message}$"):
            found.below("model")
    with pytest.raises(AssertionError, match=r"^the file is not a state dictionary: '' is not a tensor \(empty dict\)"):
        read_checkpoint(checkpoints, "empty.pt").below("")


@pytest.mark.slow
def test_a_state_dictionary_as_torch_writes_it_is_one(checkpoints: Workspace, tmp_path: Path) -> None:
    """With the versions of its modules, which are an attribute, and the extra state that a module gives."""
    import torch

    assert torch.load(checkpoints.path("own.pt"), weights_only=True)._metadata["1"] == {"version": 2}
    found = read_checkpoint(checkpoints, "own.pt")
    assert (list(found.below("")), found.others) == (list(linear().state_dict()), {})
    again = torch.load(checkpoints.path("own.pt"), weights_only=True)
    linear().load_state_dict(again, assign=True)
    bare = linear().state_dict()
    bare._metadata = None
    states = {"assigned": again, "bare": bare, "extra": linear().state_dict() | {"0._extra_state": {"a": [None, 3]}}}
    for name, state in states.items():
        (tmp_path / name).write_bytes(saved({"model": state, "epoch": None, "history": [], "more": {1: {}}}))
        found = read_checkpoint(checkpoints, name, within=Ran(tmp_path, 0, "", "", "", ""))
        assert list(found.below("model")) == list(linear().state_dict())
        assert found.others["more.1"] == "empty dict"


@pytest.mark.slow
def test_a_file_of_a_finished_command_is_read_as_well(checkpoints: Workspace, tmp_path: Path) -> None:
    write_files(tmp_path, {"out/a.pt": saved({"best": 1.5})})
    ran = Ran(tmp_path, 0, "", "", "train", "")
    assert read_checkpoint(checkpoints, "out/a.pt", within=ran).values == {"best": 1.5}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.pt", "Weights only load failed"),
        ("runs.pt", "Weights only load failed"),
        ("wide.pt", "unpacks to more than 50 MiB"),
        ("zeros.pt", "unpacks to more than 50 MiB"),
        ("deep.pt", "nested too deeply"),
        ("text.pt", "checkpoint"),
        ("absent.pt", "is missing"),
    ],
)
def test_a_checkpoint_that_is_none_fails_the_check(checkpoints: Workspace, name: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        read_checkpoint(checkpoints, name, max_mb=50)
    assert not Path("/tmp/mldb-a-pickle-was-run").exists()


@pytest.mark.slow
def test_the_names_of_a_tensor_that_is_too_large_can_still_be_read(checkpoints: Workspace) -> None:
    assert read_checkpoint(checkpoints, "wide.pt", wanted=[]).shapes == {"a": (1 << 36,)}
    with pytest.raises(AssertionError, match=r"larger than 0\.0001 MiB"):
        read_checkpoint(checkpoints, "good.pt", max_mb=0.0001)


def test_a_table_is_columns(ws: Workspace) -> None:
    found = read_parquet(ws, "good.parquet")
    assert found["i"].tolist() == [0, 1, 2, 3]
    assert numpy.isnan(found["f"]).tolist() == [False, True, False, False]
    assert (found["s"], found["d"]) == (["a", None, "c", "d"], ["x", "y", "x", "y"])
    assert (found["k"], found["b"]) == ([1, None, 3, 4], [True, False, True, None])
    assert sorted(read_parquet(ws, "good.parquet", columns=["s", "i"])) == ["i", "s"]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("good.parquet", {"columns": ["price"]}, r"lacks the columns \['price'\]"),
        ("good.parquet", {"max_rows": 3}, "4 rows"),
        ("lists.parquet", {}, "is of the type list"),
        ("rows.parquet", {}, "10000000 rows"),
        ("rows.parquet", {"max_rows": 20_000_000, "max_mb": 5}, "more than 5 MiB"),
        ("text.parquet", {}, "parquet:"),
    ],
)
def test_a_table_that_cannot_be_taken_fails_the_check(
    ws: Workspace, name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        read_parquet(ws, name, **options)


def test_pictures_are_pixels(ws: Workspace) -> None:
    colour, grey = read_pictures(ws, ["rgb.png", "grey.png"])
    assert numpy.array_equal(colour, PICTURE)
    assert numpy.array_equal(grey, numpy.repeat(PICTURE[..., :1], 3, axis=2))
    (alone,) = read_pictures(ws, ["rgb.png"], colour=False)
    assert numpy.abs(alone - PICTURE @ [0.299, 0.587, 0.114]).max() <= 0.5 + 1e-9
    assert read_pictures(ws, []) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("huge.png", "1073741824 x 1073741824 pixels"),
        ("bomb.png", "1000 x 1000 with 3001001 bytes"),
        ("short.png", "expected 2730"),
        ("none.png", "without a header"),
        ("absent.png", "is missing"),
        ("text.pt", "lacks PIL|cannot identify"),
        ("photo.jpg", "lacks PIL|cannot identify"),
    ],
)
def test_a_picture_that_is_none_fails_the_check(ws: Workspace, name: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        read_pictures(ws, ["rgb.png", name])


def test_a_model_folder_of_each_layout_is_read(ws: Workspace) -> None:
    assert read_pretrained(ws, "hf").config == {"hidden_size": 4}
    assert read_pretrained(ws, "hf").arrays["w"].tolist() == [1, 2]
    assert sorted(read_pretrained(ws, "shards").arrays) == ["a", "b"]
    assert sorted(read_pretrained(ws, "shards", forms=["model.safetensors.index.json"]).arrays) == ["a", "b"]
    with pytest.raises(AssertionError, match=r"^shards/model\.safetensors is missing"):
        read_pretrained(ws, "shards", forms=["model.safetensors"])
    for forms in ([], ["weights.bin"]):
        with pytest.raises(ValueError, match=r"the forms are model\.safetensors, "):
            read_pretrained(ws, "hf", forms=forms)
    for name, message in (("lost", "odd shards"), ("none", "is missing")):
        with pytest.raises(AssertionError, match=message):
            read_pretrained(ws, name)


def test_an_array_file_is_read_without_objects(ws: Workspace) -> None:
    assert ws.npy("good.npy").tolist() == [[0, 1, 2], [3, 4, 5]]
    for name in ("objects.npy", "text.pt", "absent.npy"):
        with pytest.raises(AssertionError):
            ws.npy(name)


@pytest.mark.slow
def test_a_reader_that_takes_too_much_memory_is_ended_and_the_check_fails(checkpoints: Workspace) -> None:
    """Bounds that the case has set too high are held by the sandbox."""
    with pytest.raises(SubjectError):
        read_checkpoint(checkpoints, "wide.pt", max_mb=1 << 40)


@pytest.mark.slow
def test_a_model_folder_from_before_safetensors_is_read(checkpoints: Workspace) -> None:
    assert read_pretrained(checkpoints, "old").arrays["w"].tolist() == [1, 1, 1]


def test_the_judge_itself_imports_no_library_that_parses() -> None:
    texts = {path.name: path.read_text() for path in Path(judge.__file__).parent.glob("*.py")}
    # It runs in the sandbox.
    del texts["probe_driver.py"]
    for name in ("reader_driver", "torch", "pyarrow", "PIL"):
        assert not [it for it, text in texts.items() if re.search(rf"(from|import) ([\w.]+\.)?{name}\b", text)]


@pytest.mark.slow
def test_damaged_files_are_read_or_fail_the_check(checkpoints: Workspace, ws: Workspace, tmp_path: Path) -> None:
    """Whatever a parser of a library does with them, even a crash, is the end of its sandbox alone."""
    rng = numpy.random.default_rng(9)
    outcomes = set()
    for place, name in ((checkpoints, "good.pt"), (ws, "good.parquet")):
        whole = place.path(name).read_bytes()
        for _ in range(12):
            content = bytearray(whole[: int(rng.integers(len(whole) // 2, len(whole) + 1))])
            for spot in rng.integers(0, len(content), int(rng.integers(1, 20))):
                content[spot] = int(rng.integers(0, 256))
            (tmp_path / name).write_bytes(content)
            folder = Ran(tmp_path, 0, "", "", "", "")
            try:
                if name == "good.pt":
                    read_checkpoint(place, name, within=folder)
                else:
                    read_parquet(place, name, within=folder)
                outcomes.add("read")
            except AssertionError:
                outcomes.add("refused")
    assert "refused" in outcomes


def test_filters_of_a_png_are_undone() -> None:
    """Each line with another of the five filters, as other programs write them; tried without a sandbox."""
    from bench.judge import reader_driver

    height, width, channels = 10, 6, 3
    pixels = RNG.integers(0, 256, (height, width * channels)).astype(numpy.uint8)
    lines = bytearray()
    for row, line in enumerate(pixels.astype(int)):
        above = pixels[row - 1].astype(int) if row else numpy.zeros_like(line)
        left, corner = (numpy.concatenate([numpy.zeros(3, int), it[:-3]]) for it in (line, above))
        guess = left + above - corner
        near = numpy.stack([abs(guess - it) for it in (left, above, corner)]).argmin(axis=0)
        filters = [0 * line, left, above, (left + above) // 2, numpy.choose(near, [left, above, corner])]
        lines += bytes([row % 5]) + ((line - filters[row % 5]) % 256).astype(numpy.uint8).tobytes()
    content = png_with(width, height, zlib.compress(bytes(lines)))
    found = reader_driver._png(numpy, content, 1000)
    assert numpy.array_equal(found.reshape(height, -1), pixels)


@pytest.mark.slow
def test_readers_work_in_every_sandbox(any_sandbox: Sandbox, tmp_path: Path) -> None:
    write_files(tmp_path / "snapshot", {"a.png": png(PICTURE), "numpy.py": "raise SystemExit(1)\n"})
    made = opened(tmp_path / "snapshot", any_sandbox, (), memory_mb=800)
    try:
        assert numpy.array_equal(read_pictures(made, ["a.png"])[0], PICTURE)
    finally:
        made.close()
