"""What `compare --json` prints."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.cli.compare_factor import Factor
    from bench.stats import Chosen, Comparison, FactorEffects


def as_document(base: Chosen, head: Chosen, answer: Comparison) -> str:
    """Everything as JSON."""
    sides = {
        name: {"label": side.label, **asdict(side.entrant), "records": len(side.records)}
        for name, side in (("base", base), ("head", head))
    }
    # Properties, which asdict() leaves out.
    derived = {it.measure: (it.factor, it.open_drop) for it in answer.measures}
    document = {"schema": 1, **sides, **asdict(answer)}
    for measure in document["measures"]:
        measure["factor"], measure["open_drop"] = derived[measure["measure"]]
    return json.dumps(document, indent=1, allow_nan=False)


def with_factor(document: str, factor: Factor, found: FactorEffects | None) -> str:
    effects = {} if found is None else asdict(found)
    return json.dumps({**json.loads(document), "factor": {**asdict(factor), **effects}}, indent=1, allow_nan=False)
