"""For case authors: a new case, faults that are seen without running it, and its proof.

`scaffold_case` writes the folder, `lint` reads it, a `Verifier` runs its solution and wrong answers, a `MutantHunt`
finds what its checks forget, and `Attempts` judge what was written to try them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.authoring.answering import open_answers_of
    from bench.authoring.attempts import Attempt, Attempts
    from bench.authoring.choice import SAMPLE_S, Choice, choose_changed, longest_first, shard_of
    from bench.authoring.edit_answers import lay_out_answer, move_patches, save_answer
    from bench.authoring.judge_sources import declare, declared, sources_digest
    from bench.authoring.locks import FOLDER, ProofLock, Surroundings, lock_path, read_lock, standing
    from bench.authoring.mutants import MutantHunt, MutantOutcome, lay_out_mutant, open_hunt, solution_mutants
    from bench.authoring.mutation import Mutant, draw
    from bench.authoring.original import OriginalVerdict, original_verdict
    from bench.authoring.proof_seeds import ProofSeed, Rounds
    from bench.authoring.proving import BUDGET_MEAN_S, Proven, contradiction, lock_proven, prove_cases
    from bench.authoring.scaffold import KINDS, SMALLEST, scaffold_case
    from bench.authoring.verify import Proof, Verifier, open_verifier
else:
    __getattr__ = lazy_face(__name__)
