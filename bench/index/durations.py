"""What cells took and cost, for the planner: medians and means of the newest, worked out in the index."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.plan.estimate import NEWEST, model_key

if TYPE_CHECKING:
    from bench.index.query import Index


@dataclass(frozen=True)
class Measured:
    """Of graded cells, over the newest `NEWEST` of each group. Models are as in `bench.plan.estimate.model_key`."""

    exact: dict[tuple[str, str, str, str], tuple[float, float | None]]
    """(agent id, models, case id, profile) to median seconds and mean cost in USD (None: no cost is known)."""
    cases: dict[tuple[str, str], float]
    """(case id, profile) to median seconds, whoever ran."""
    shares: dict[tuple[str, str], float]
    """(agent id, models) to the mean share of the time limits that was used."""
    graded: set[tuple[str, str, str, str, int]]
    """(agent digest, models, case digest, profile, trial) of every verdict."""


def measured(index: Index) -> Measured:
    """Everything the index can tell; for `bench.plan.estimate.History.of`."""
    keys = {text: model_key(json.loads(text)) for (text,) in index.rows("SELECT DISTINCT models FROM cells")}
    newest = f"max_by({{'s': seconds, 'c': cost_usd}}, (started, cell), {NEWEST})"
    exact = index.rows(
        f"""SELECT agent, models, case_id, profile, list_median(list_transform(found, lambda x: x.s)),
            list_avg(list_transform(found, lambda x: x.c))
        FROM (SELECT agent, models, case_id, profile, {newest} AS found
              FROM cells WHERE outcome = 'graded' GROUP BY ALL)"""  # noqa: S608
    )
    cases = index.rows(
        f"""SELECT case_id, profile, list_median(list_transform({newest}, lambda x: x.s))
        FROM cells WHERE outcome = 'graded' GROUP BY ALL"""  # noqa: S608
    )
    share = "seconds / (json_extract(limits, '$.agent_s')::DOUBLE + json_extract(limits, '$.grade_s')::DOUBLE)"
    shares = index.rows(
        f"""SELECT agent, models, list_avg(max_by({share}, (started, cell), {NEWEST}))
        FROM cells WHERE outcome = 'graded' GROUP BY ALL"""  # noqa: S608
    )
    graded = index.rows(
        "SELECT DISTINCT agent_digest, models, case_digest, profile, trial FROM cells WHERE outcome = 'graded'"
    )
    return Measured(
        exact={(agent, keys[models], case, profile): (s, c) for agent, models, case, profile, s, c in exact},
        cases={(case, profile): seconds for case, profile, seconds in cases},
        shares={(agent, keys[models]): mean for agent, models, mean in shares},
        graded={(agent, keys[models], case, profile, trial) for agent, models, case, profile, trial in graded},
    )
