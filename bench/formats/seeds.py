"""The seeds of the data: how they derive from an experiment's secret, what a record says of them, and their reveal.

An experiment is a set of runs that meet the same data: its arms, trials, looks and shards. Records carry a fingerprint
of its secret and a commitment to each derived seed. The derived seeds, never the secret, are revealed when it has
ended.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from bench.base.errors import UserError
from bench.base.model import Model, SeedText, seed_text
from bench.formats.names import Digest, Instant, Name

if TYPE_CHECKING:
    from bench.formats.record import Record

SEED_BYTES = 16
"""128 bits: as many as NumPy's SeedSequence holds."""
REVEALED = "seeds.json"
"""In a run folder: the derived seeds, when the experiment has ended. No cell of the run starts after that."""
REPLAY_PREFIX = "replay/"
"""Of models that are cassettes."""
_SHORTEST = 16


@dataclass(frozen=True)
class SeedSecret:
    """The secret of an experiment; without one, anyone who knows a case can compute its data beforehand."""

    secret: bytes = field(default=b"", repr=False)
    experiment: str = ""
    """Mixed into the secret, so that one standing secret serves many experiments."""
    drawn: bool = False
    """Made for this plan alone, and kept beside it: no other run can have it."""

    @classmethod
    def of(cls, secret: str, experiment: str, where: str) -> SeedSecret:
        """A secret that a user gave; an empty one is none. Raises `UserError` for one that can be guessed."""
        given = secret.encode("utf-8", "surrogateescape")
        if 0 < len(given) < _SHORTEST:
            raise UserError(
                f"has {len(given)} bytes, and {_SHORTEST} are the fewest", where=where, remedy="openssl rand -hex 32"
            )
        return cls(given, experiment) if given else cls()

    @property
    def key(self) -> bytes:
        """From which the experiment's seeds derive; empty without a secret."""
        if not self.secret or not self.experiment:
            return self.secret
        return hmac.digest(self.secret, b"ml-dev-bench experiment\0" + self.experiment.encode(), "sha256")

    @property
    def fingerprint(self) -> str:
        """What may be known of the secret: that two runs meet the same data. Empty without one."""
        return hmac.digest(self.key, b"ml-dev-bench seed secret", "sha256").hex()[:16] if self.secret else ""

    def facts(self, cells: int) -> dict[str, object]:
        """What a plan of so many cells says of the secret."""
        if not self.secret:
            return {}
        return {
            "seed_secret": self.fingerprint,
            "experiment": self.experiment,
            "experiment_cells": cells,
            "seeds_shared": not self.drawn,
        }


def data_seed(key: bytes, suite_version: str, case: str, trial: int) -> int:
    """Seed of a trial's data, 128 bits: two agents meet the same data at the same trial.

    Without a `key`, anyone who knows the case can compute it.
    """
    text = f"data\0{suite_version}\0{case}\0{trial}".encode()
    digest = hmac.digest(key, text, "sha256") if key else hashlib.sha256(text).digest()
    return int.from_bytes(digest[:SEED_BYTES], "big")


def commitment(seed: int, suite_version: str, case: str, trial: int) -> str:
    """A digest that fixes a trial's seed without telling it: 128 bits cannot be searched."""
    text = f"seed\0{suite_version}\0{case}\0{trial}\0{seed_text(seed)}"
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def is_replayed(models: Mapping[str, str]) -> bool:
    """Whether a cell of these models replays a recorded conversation: never ranked, on the data of the recording."""
    return any(model.startswith(REPLAY_PREFIX) for model in models.values())


def seeds_mark(record: Record) -> Literal["", "public", "recorded"]:
    """The mark of a record whose data could be known beforehand; empty where a secret prevented that."""
    if record.seed_source == "recorded":
        return "recorded"
    return (
        "" if record.seed_source == "secret" or (not record.seed_source and record.provenance.seed_secret) else "public"
    )


class RevealedSeed(Model):
    """The seed of one trial of a case."""

    suite_version: str
    case: Name
    trial: int = Field(ge=1)
    seed: SeedText
    commitment: Digest


class RevealedSeeds(Model):
    """The content of seeds.json: what anyone needs to make the data of a finished experiment again."""

    schema_: Literal[1] = Field(1, alias="schema")
    experiment: str
    seed_secret: str
    """Fingerprint of the secret, which stays secret."""
    revealed: Instant
    seeds: list[RevealedSeed]

    def faults(self, records: Iterable[Record]) -> Iterable[tuple[str, str]]:
        """Of the records of this experiment, those whose commitment is not to the revealed seed: (cell, what)."""
        known = {(it.suite_version, it.case, it.trial): it for it in self.seeds}
        for it in self.seeds:
            if commitment(int(it.seed, 16), it.suite_version, it.case, it.trial) != it.commitment:
                yield f"{it.case}, trial {it.trial}", "the revealed seed does not match its own commitment"
        for record in records:
            if record.seed_source != "secret" or record.provenance.seed_secret != self.seed_secret:
                continue
            found = known.get((record.provenance.suite_version, record.case.id, record.trial))
            if found is None:
                yield record.cell, "its seed was not revealed"
            elif found.commitment != record.seed_commitment:
                yield record.cell, "its commitment is not to the revealed seed"
            elif record.finished > self.revealed:
                yield record.cell, f"ended at {record.finished}, after its seed was revealed at {self.revealed}"
