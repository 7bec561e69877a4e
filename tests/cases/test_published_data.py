"""Cases whose profile `full` is made of published data: by a local mirror of the same form, at mini size."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from bench.casekit.picture_files import read_cifar10, read_idx, write_cifar10, write_idx
from bench.casekit.pictures import SHAPES, digits, shapes
from bench.cell import CellContext, run_cell
from bench.cell.start_state import prepare_start
from bench.formats.agent_lookup import find_agent
from bench.formats.case import Case, load_case, load_cases
from bench.formats.plan import Cell
from bench.sandbox import Sandbox
from tests.helpers.cells import ROOT, as_settings, make_context
from tests.helpers.file_server import file_server
from tests.helpers.sampling import at_night

Files = dict[str, bytes]


def cifar10(folder: Path, train: int = 400) -> Files:
    rng = np.random.default_rng(7)
    labels = [rng.permutation(np.arange(count) % 10) for count in (train, 20)]
    given, test = ((shapes(rng, each, difficulty=0.2), each) for each in labels)
    write_cifar10(folder, given, test, SHAPES)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        archive.add(folder / "cifar-10-batches-bin", "cifar-10-batches-bin")
    return {"cifar10": stream.getvalue()}


def mnist(folder: Path) -> Files:
    rng = np.random.default_rng(7)
    for split, count in (("train", 760), ("t10k", 60)):
        labels = rng.permutation([*np.repeat(np.arange(3), count), *np.repeat(np.arange(3, 10), 60)])
        write_idx(folder, split, digits(rng, labels, 0.1), labels, packed=True)
    kinds = {"images": "images-idx3-ubyte.gz", "labels": "labels-idx1-ubyte.gz"}
    return {
        f"{name}_{kind}": (folder / f"{split}-{file}").read_bytes()
        for name, split in (("train", "train"), ("test", "t10k"))
        for kind, file in kinds.items()
    }


@contextmanager
def mirrored(case_id: str, files: Files, root: Path) -> Iterator[Case]:
    """The case with addresses, sizes and digests of local files in the place of the published ones."""
    declared = load_cases(ROOT / "cases", [case_id])[0]
    folder = root / "cases" / declared.folder.parent.name / case_id
    shutil.copytree(declared.folder, folder)
    for name in declared.spec.assets:
        shutil.copytree(declared.asset(name), root / "cases" / "assets" / name)
    path = folder / "case.yaml"
    facts: dict[str, Any] = yaml.safe_load(path.read_text())
    assert set(facts["sources"]["full"]) == set(files)
    with ExitStack() as stack:
        for name, content in files.items():
            server = stack.enter_context(file_server(content))
            server.cut_after = 1 + len(content) * 2 // 3
            source = facts["sources"]["full"][name]
            url = f"{server.url.rpartition('/')[0]}/{source['url'].rpartition('/')[2]}"
            source |= {"url": url, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        path.write_text(as_settings(facts))
        yield load_case(folder)


def outcome(case: Case, agent: str, context: CellContext) -> tuple[Any, ...]:
    record = run_cell(Cell(find_agent(agent, ROOT / "agents"), {}, case.for_profile("full"), "full", 1), context)
    return record.outcome, record.success, record.score, record.error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case_id", "made"), [at_night("basic_vision_finetuning", cifar10), ("small_dataset_overfit", mnist)]
)
def test_full_runs_from_fetched_data_to_a_verdict(bubblewrap: Sandbox, tmp_path: Path, case_id: str, made: Any) -> None:
    with mirrored(case_id, made(tmp_path / "published"), tmp_path) as case:
        context = make_context(tmp_path, bubblewrap)
        assert outcome(case, "oracle", context) == ("graded", True, 1.0, "")
        assert outcome(case, "nop", context)[:3] == ("graded", False, 0.0)


def test_the_agent_finds_the_published_pictures(tmp_path: Path) -> None:
    files = cifar10(tmp_path / "published")
    with mirrored("basic_vision_finetuning", files, tmp_path) as case:
        start = prepare_start(case, "full", 3, tmp_path / "cache", tmp_path / "cache")
    place = "cifar-10-batches-bin/data_batch_1.bin"
    pictures, labels = read_cifar10(start.workspace / "data" / place)
    given, named = read_cifar10(tmp_path / "published" / place)
    assert (pictures == given).all() and (labels == named).all()
    # A copy: the agent may write to it, and what was fetched is every trial's.
    fetched = next((tmp_path / "cache" / "sources").rglob("data_batch_1.bin"))
    assert not fetched.samefile(start.workspace / "data" / place)


@pytest.mark.slow
def test_the_long_tail_is_of_published_pictures_and_the_test_split_stays_with_the_judge(tmp_path: Path) -> None:
    files = cifar10(tmp_path / "published", train=1500)
    with mirrored("cifar_10_lt_performance", files, tmp_path) as case:
        start = prepare_start(case, "full", 3, tmp_path / "cache", tmp_path / "cache")
    splits = {name: np.load(start.workspace / "data" / f"{name}.npz") for name in ("train", "val")}
    # Each class has 150 here, of which validation takes 100; the rarest of CIFAR-10's tail keeps 50, too.
    assert np.bincount(splits["train"]["labels"]).tolist() == [50] * 10
    assert np.bincount(np.load(start.hidden / "test.npz")["labels"]).tolist() == [2] * 10
    seen = [picture.tobytes() for name in splits for picture in splits[name]["images"]]
    theirs, _ = read_cifar10(tmp_path / "published" / "cifar-10-batches-bin" / "test_batch.bin")
    asked = np.load(start.hidden / "test.npz")["images"]
    assert (asked == theirs.transpose(0, 3, 1, 2)).all() and len(seen) == len(set(seen)) == 1500
    assert not {picture.tobytes() for picture in asked} & set(seen)
    assert json.loads((start.workspace / "target.json").read_text()) == {"target_balanced_acc": 75.0}


@pytest.mark.slow
def test_the_agent_finds_the_published_digits_and_the_judge_others_of_them(tmp_path: Path) -> None:
    files = mnist(tmp_path / "published")
    with mirrored("small_dataset_overfit", files, tmp_path) as case:
        start = prepare_start(case, "full", 3, tmp_path / "cache", tmp_path / "cache")
    raw = start.workspace / "data" / "MNIST" / "raw"
    given = read_idx(tmp_path / "published" / "train-images-idx3-ubyte.gz")
    assert (read_idx(raw / "train-images-idx3-ubyte") == given).all()
    named, given_names = (
        read_idx(folder / f"t10k-labels-idx1-ubyte{end}")
        for folder, end in ((raw, ""), (tmp_path / "published", ".gz"))
    )
    assert 0 < (named != given_names).sum() <= 18, "a tenth of the digits 0 to 2 are wrong"
    # Pixels in another order have the same histogram, by which a picture is known again.
    seen = {np.sort(picture.ravel()).tobytes() for picture in given}
    seen |= {np.sort(it.ravel()).tobytes() for it in read_idx(tmp_path / "published" / "t10k-images-idx3-ubyte.gz")}
    theirs = [read_idx(start.hidden / f"{name}-images-idx3-ubyte") for name in ("train", "t10k")]
    theirs.append(np.load(start.hidden / "probe.npz")["images"])
    known = [np.sort(picture.ravel()).tobytes() for pictures in theirs for picture in pictures]
    assert set(known) <= seen and len(set(known)) == len(known), "each once"


def test_what_is_published_says_where_its_digest_is_from() -> None:
    for case in load_cases(ROOT / "cases"):
        for sources in case.spec.sources.values():
            for source in sources.values():
                assert source.digest_from.startswith("https://"), case.id
                assert json.loads(source.model_dump_json())["licence"]
