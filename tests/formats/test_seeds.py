"""Seeds of the data: 128 bits from a secret, told by nothing before they are revealed, and stored as text."""

from __future__ import annotations

import json
import random

import pytest

from bench.base.errors import UserError
from bench.base.model import seed_text
from bench.formats.older_records import read_line
from bench.formats.plan import public_seed
from bench.formats.record import Record
from bench.formats.seeds import RevealedSeed, RevealedSeeds, SeedSecret, commitment, data_seed, seeds_mark
from tests.helpers.records import make_record

SECRET = "a secret that nobody can guess"
FACTS = [("2026.11", "nan_loss_debug", trial) for trial in range(1, 50)]


def secret(text: str = SECRET, experiment: str = "") -> SeedSecret:
    return SeedSecret.of(text, experiment, "here")


def test_seeds_have_128_bits_and_differ_by_secret_experiment_case_and_trial() -> None:
    keys = [b"", secret().key, secret("another secret, as long as that").key, secret(experiment="night-1").key]
    seeds = [{data_seed(key, *facts) for facts in FACTS} for key in keys]
    assert len(set().union(*seeds)) == len(keys) * len(FACTS)
    for them in seeds:
        assert all(seed < 2**128 for seed in them)
        # Of 49 numbers of 128 bits one below 2**112 comes once in a thousand; of short ones all would be.
        assert sum(seed >= 2**112 for seed in them) >= len(FACTS) - 1
        for bit in range(128):
            assert 0 < sum(seed >> bit & 1 for seed in them) < len(them)


def test_neither_fingerprint_nor_commitment_tells_the_secret_or_a_seed() -> None:
    prints = [secret(text).fingerprint for text in ("", SECRET, "another secret, as long as that")]
    assert [len(text) for text in prints] == [0, 16, 16]
    assert prints[1] != prints[2] and secret(experiment="night-1").fingerprint not in prints
    seed = data_seed(secret().key, *FACTS[0])
    said = commitment(seed, *FACTS[0])
    assert seed_text(seed) not in said and said != commitment(seed + 1, *FACTS[0])
    assert said != commitment(seed, *FACTS[1])
    assert SECRET not in repr(secret()) and SECRET not in json.dumps(secret().facts(3))
    with pytest.raises(UserError, match="the fewest"):
        secret("short")


def test_large_seeds_survive_every_reader_of_json_and_old_records_are_read() -> None:
    record = make_record()
    made = Record.model_validate({**record.model_dump(by_alias=True), "judge_seed": 2**128 - 1})
    assert json.loads(made.to_line(), parse_int=float)["judge_seed"] == "f" * 32
    assert Record.model_validate_json(made.to_line()) == made
    old = {**json.loads(record.to_line()), "judge_seed": 77}
    del old["seed_source"], old["seed_commitment"]
    found = read_line(json.dumps(old).encode(), "old")
    assert found.judge_seed is not None and int(found.judge_seed, 16) == 77
    assert (found.seed_source, seeds_mark(found)) == ("", "public")
    for odd in (2**128, -1, "0x12", "", True, 1.5):
        with pytest.raises(ValueError, match="judge_seed"):
            Record.model_validate({**record.model_dump(by_alias=True), "judge_seed": odd})


def test_every_record_whose_data_could_be_known_is_marked() -> None:
    def mark(source: str, fingerprint: str) -> str:
        plain = make_record().model_dump(by_alias=True)
        plain["provenance"]["seed_secret"] = fingerprint
        return seeds_mark(Record.model_validate({**plain, "seed_source": source}))

    assert [mark("secret", "ab"), mark("", "ab")] == ["", ""]
    assert [mark("public", ""), mark("", ""), mark("public", "ab")] == ["public"] * 3
    assert [mark("recorded", "ab"), mark("recorded", "")] == ["recorded"] * 2


def test_a_revealed_seed_must_be_the_one_that_was_committed_to() -> None:
    key, print_ = secret().key, secret().fingerprint
    plain = make_record().model_dump(by_alias=True)
    facts = (plain["provenance"]["suite_version"], plain["case"]["id"], plain["trial"])
    seed = data_seed(key, *facts)
    plain["provenance"]["seed_secret"] = print_
    plain |= {"seed_source": "secret", "seed_commitment": commitment(seed, *facts)}
    record = Record.model_validate(plain)

    def faults(seed: int, committed: str, revealed: str = "2030-01-01T00:00:00Z", **changes: object) -> list[str]:
        told = {"suite_version": facts[0], "case": facts[1], "trial": facts[2], **changes}
        item = RevealedSeed.model_validate({**told, "seed": seed, "commitment": committed})
        document = RevealedSeeds(experiment="", seed_secret=print_, revealed=revealed, seeds=[item])
        return [what for _, what in document.faults([record])]

    assert faults(seed, commitment(seed, *facts)) == []
    other = random.Random(1).getrandbits(128)
    assert faults(other, commitment(other, *facts)) == ["its commitment is not to the revealed seed"]
    assert faults(other, commitment(seed, *facts)) == ["the revealed seed does not match its own commitment"]
    moved = commitment(seed, facts[0], facts[1], 999)
    assert faults(seed, moved, trial=999) == ["its seed was not revealed"]
    assert "after its seed was revealed" in faults(seed, commitment(seed, *facts), "2026-01-01T00:00:00Z")[0]


def test_the_number_that_pairs_cells_is_as_it_was() -> None:
    """Stored records have it, and cassettes of before were made with it."""
    assert [public_seed("2026.11", "nan_loss_debug", trial) for trial in (1, 2)] == [2639929296, 212569975]
