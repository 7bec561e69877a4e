"""The seed of proofs, from which their data and the judge's inputs derive, so that a failure can be repeated."""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from bench.base.errors import UserError
from bench.cell import CellContext
from bench.formats.plan import Cell

_DIGITS = 16
_TOP_BIT = 2**127


@dataclass(frozen=True)
class ProofSeed:
    """The seed of a round of proofs. As text it is what `cases verify --seed` takes."""

    text: str

    @classmethod
    def drawn(cls) -> ProofSeed:
        return cls(secrets.token_hex(_DIGITS // 2))

    @classmethod
    def parse(cls, text: str) -> ProofSeed:
        """Raises `UserError` for a text that is not a seed."""
        if not re.fullmatch(r"[0-9a-f]{1,32}", text):
            raise UserError(
                f"{text!r} is not a seed",
                where="cases verify --seed",
                remedy="give up to 32 hexadecimal digits, as a failure prints them",
            )
        return cls(text)

    def later(self, number: int) -> ProofSeed:
        """The seed of a further round; number 0 is this one itself."""
        return ProofSeed(f"{self._derived('round', str(number)):032x}"[:_DIGITS]) if number else self

    def data(self, case: str, trial: int) -> int:
        """Seed of a trial's data, 128 bits. Trial 2 differs only where a cut to 32 or 64 bits would lose it."""
        return self._derived("data", case) ^ (_TOP_BIT if trial == 2 else 0)

    def judging(self, case: str, proof: str) -> int:
        """Seed of the judge's fresh inputs in one proof, 128 bits."""
        return self._derived("judge", case, proof)

    def _derived(self, *words: str) -> int:
        # Leading zeros say nothing: 7 and 007 are the same seed.
        key = self.text.lstrip("0").encode()
        return int.from_bytes(hmac.digest(key, "\0".join(words).encode(), "sha256")[:16])


@dataclass(frozen=True)
class Rounds:
    """On which seeds a case is proven, and what is asked of the machine."""

    seed: ProofSeed = field(default_factory=ProofSeed.drawn)
    repeat: int | None = None
    """Seeds for the solution and each wrong answer; None: one, and a second one for wrong answers that are quick."""
    complete: bool = False
    """A profile that is left out for want of a library is a failure."""


@dataclass(frozen=True)
class ProofContext(CellContext):
    """What the cells of a proof share: data of its own seed, built once for all of them."""

    proof_seed: ProofSeed = field(default_factory=ProofSeed.drawn)
    starts: Path = Path()

    def data_seed(self, cell: Cell) -> int:
        return self.proof_seed.data(cell.case.id, cell.trial)

    def start_cache(self, cell: Cell) -> Path:
        """Data of a drawn seed is not used again after the proofs; what does not depend on a seed is kept."""
        return self.starts if cell.case.part("data.py").is_file() else self.folders.cache
