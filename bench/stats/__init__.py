"""Statistics: what records say about agents, with what certainty, and what has changed."""

from bench.stats.standing import (
    KS,
    LOST,
    CaseResult,
    Entrant,
    Estimate,
    Passes,
    Place,
    Standing,
    current,
    entrant_of,
    model_label,
    newest_digests,
    rank,
    standings,
    unique_cells,
)

__all__ = [
    "KS",
    "LOST",
    "CaseResult",
    "Entrant",
    "Estimate",
    "Passes",
    "Place",
    "Standing",
    "current",
    "entrant_of",
    "model_label",
    "newest_digests",
    "rank",
    "standings",
    "unique_cells",
]
