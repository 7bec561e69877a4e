"""Hidden data cannot be recomputed: attacks on the seeds, by agents that have this repository and the public data.

parse_logs and small_dataset_overfit fell to them while seeds were public and had 32 bits.
"""

from __future__ import annotations

import importlib
import random
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from bench.base.child import load_module
from bench.base.install import find_data_folders
from bench.casekit.data import stream
from bench.formats.case import Case, load_cases
from bench.formats.plan import public_seed
from bench.formats.seeds import data_seed
from bench.formats.suite import load_suite
from tests.helpers.sampling import at_night, on_push

PLACES = find_data_folders()
CASES = {case.id: case for case in load_cases(PLACES.cases) if case.part("data.py").is_file()}
SUITES = [load_suite(PLACES.cases, path.stem) for path in sorted((PLACES.cases / "suites").glob("*.yaml"))]
Files = dict[str, bytes]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Loads the data.py of a case, with its hidden modules."""
    known = set(sys.modules)
    # Some take what is in the case's workspace, where nothing may be left.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def loaded(case: str) -> ModuleType:
        monkeypatch.syspath_prepend(str(CASES[case].part("hidden")))
        importlib.invalidate_caches()
        return load_module(f"data_of_{case}", CASES[case].part("data.py"))

    yield loaded
    for name in set(sys.modules) - known:
        # Modules of two cases may have one name.
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(f"{PLACES.cases}/"):
            del sys.modules[name]


def built(module: ModuleType, folder: Path, seed: int) -> tuple[Files, Files]:
    """What the agent finds, and what only the judge sees."""
    made = []
    for name in ("public", "hidden"):
        (folder / name).mkdir(parents=True)
        made.append(folder / name)
    module.build(*made, "mini", seed)
    files = [
        {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()} for top in made
    ]
    return files[0], files[1]


def guesses(case: Case, seed: int) -> set[int]:
    """What an agent can try: every seed that public facts give, now and before, and each piece of 32 bits of the real
    one, as if it had searched all of these and been lucky.
    """
    versions = {suite.version for suite in SUITES} | {"verify", "attack", ""}
    facts = [(version, case.id, trial) for version in versions for trial in range(1, 101)]
    public = {public_seed(*fact) for fact in facts} | {data_seed(b"", *fact) for fact in facts}
    pieces = {seed >> shift & 0xFFFFFFFF for shift in range(0, 128, 8)}
    return public | pieces | {piece << 96 for piece in pieces} | set(range(1000))


# --- the two attacks -------------------------------------------------------------------------------------------------


def attack_parse_logs(module: ModuleType, public: Files, candidates: set[int], folder: Path) -> Files | None:
    """Find the seed by the name of the first run, which is drawn at once; then build what the judge has."""
    log = public["training/training_logs.txt"].decode()
    for number, candidate in enumerate(sorted(candidates)):
        rng = random.Random(candidate)
        rng.random()
        first, second = rng.sample(range(0x1000, 0x10000), 2)
        if f"run {first:04x}" in log and f"run {second:04x}" in log:
            found, hidden = built(module, folder / str(number), candidate)
            if found == public:
                return hidden
    return None


def attack_small_dataset(module: ModuleType, public: Files, candidates: set[int], folder: Path) -> Files | None:
    """Find the seed by how many images of each digit there are; then build what the judge has."""
    labels = np.frombuffer(public["data/MNIST/raw/train-labels-idx1-ubyte"][8:], np.uint8)
    counts = {digit: int((labels == digit).sum()) for digit in range(3)}
    for number, candidate in enumerate(sorted(candidates)):
        starts: list[Any] = [stream(candidate, "public"), candidate, np.random.SeedSequence(candidate).spawn(2)[1]]
        if any(module._counts(400, np.random.default_rng(start)) == counts for start in starts):
            found, hidden = built(module, folder / str(number), candidate)
            if found == public:
                return hidden
    return None


ATTACKS: dict[str, Callable[[ModuleType, Files, set[int], Path], Files | None]] = {
    "parse_logs": attack_parse_logs,
    "small_dataset_overfit": attack_small_dataset,
}


@pytest.mark.parametrize("name", on_push(ATTACKS, ["parse_logs"]))
def test_hidden_data_cannot_be_recomputed_from_public_facts(
    name: str, load: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    case, module, attack = CASES[name], load(name), ATTACKS[name]
    facts = (SUITES[0].version, case.id, 1)
    # Against seeds of before, the attack wins: it is a real one.
    public, hidden = built(module, tmp_path / "before", public_seed(*facts))
    assert attack(module, public, guesses(case, 0), tmp_path / "won") == hidden
    seed = data_seed(secrets.token_bytes(32), *facts)
    public, hidden = built(module, tmp_path / "now", seed)
    assert attack(module, public, guesses(case, seed) - {seed}, tmp_path / "lost") is None
    # And with the seed itself, which only the reveal tells.
    assert attack(module, public, {seed}, tmp_path / "revealed") == hidden


# --- independent streams ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [at_night("small_dataset_overfit"), at_night("shape_mismatch_train"), "house_price"])
def test_the_public_part_does_not_determine_the_hidden_part(
    name: str, load: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever recovers the generator of the public data, to its last bit, knows nothing of the hidden data."""
    module = load(name)

    def with_streams(folder: str, **seeds: int) -> tuple[Files, Files]:
        monkeypatch.setattr(module, "stream", lambda seed, of: seeds[of])
        return built(module, tmp_path / folder, 0)

    public, hidden = with_streams("first", public=2**127 + 1, hidden=2**127 + 2)
    same, other = with_streams("second", public=2**127 + 1, hidden=2**127 + 3)
    assert same == public
    assert other.keys() == hidden.keys() and other != hidden
    changed, _ = with_streams("third", public=2**127 + 4, hidden=2**127 + 2)
    assert changed != public


def test_streams_use_every_bit_and_tell_nothing_of_each_other() -> None:
    seed = secrets.randbits(128)
    made = [stream(seed ^ (1 << bit), "public") for bit in range(128)]
    assert len({*made, stream(seed, "public"), stream(seed, "hidden"), seed}) == 131
    assert all(value < 2**128 for value in made)
    # Half of the bits differ, give or take: no bit of the seed shows through.
    differing = [(value ^ stream(seed, "public")).bit_count() for value in made]
    assert all(24 < bits < 104 for bits in differing)


@pytest.mark.parametrize("name", sorted(CASES))
def test_all_128_bits_of_the_seed_reach_the_generators(
    name: str, load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No data.py may cut its seed: one whose upper bits differ alone gives other random numbers from the first on."""
    module = load(name)

    class FoundError(Exception):
        """The first generator of the build."""

    drawn: list[int] = []

    def numpy_generator(seed: Any) -> Any:
        drawn.append(int(real_numpy(seed).integers(2**62)))
        if seed != getattr(module, "TRAIN_SEED", None):
            raise FoundError
        return real_numpy(seed)

    class Random(random.Random):
        def __init__(self, seed: Any = None) -> None:
            drawn.append(random.Random(seed).getrandbits(62))
            raise FoundError

    real_numpy = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", numpy_generator)
    if hasattr(module, "random"):
        monkeypatch.setattr(module, "random", type("Module", (), {"Random": Random}))
    found = set()
    for bit in (0, 31, 32, 63, 64, 95, 96, 127):
        seed = (2**128 // 3) ^ (1 << bit)
        drawn.clear()
        with pytest.raises(FoundError):
            module.build(Path("/nonexistent"), Path("/nonexistent"), "mini", seed)
        found.add(drawn[-1])
    assert len(found) == 8
