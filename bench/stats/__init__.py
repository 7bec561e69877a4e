"""Statistics: what records say about agents, with what certainty, and what has changed.

`standings` and `rank` make a board, `compare_records` a verdict, `nightly` and `series_levels` trends, `power` a plan.
Every formula names its source; pure functions of records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.stats.budget import Selection, select
    from bench.stats.choice import (
        AA_RUNS,
        Chosen,
        Filters,
        Stored,
        choose,
        choose_arm,
        named_records,
        with_history,
    )
    from bench.stats.comparable import pair
    from bench.stats.compare import Compared, Comparison, compare_records
    from bench.stats.conditions import Conditions, changed_conditions, mixed_conditions
    from bench.stats.effects import FactorEffects, Interaction, MeasureEffects
    from bench.stats.entrants import MOST_STOPPED, Entrant, Installed, entrant_of, model_label, unknown_case
    from bench.stats.factor import factor_effects, factor_faults
    from bench.stats.improvement import BARS, FEWEST_TRIALS, Improvement, OverCases, improvement_of, over_cases
    from bench.stats.intervals import Correlation, Interval
    from bench.stats.listing import CaseMonth, CellLine, line_order
    from bench.stats.night_points import NightPoints, Words
    from bench.stats.noise_floor import Losses, NoiseFloor
    from bench.stats.pairing import MEASURES
    from bench.stats.periods import DAYS, MICRO, CasePeriod, Spent, TokenUse
    from bench.stats.power import (
        Components,
        Design,
        Price,
        Question,
        cases_needed,
        components,
        designs,
        fewest_cases,
        price,
        trials_needed,
    )
    from bench.stats.prior import Candidate, TooLittle
    from bench.stats.record_results import RecordResults, standings
    from bench.stats.results import (
        CaseSeen,
        CheckShares,
        Findings,
        Measured,
        Results,
        Suite,
        Trial,
        Version,
        suite_of,
        suite_of_records,
    )
    from bench.stats.sample_sizes import Needed
    from bench.stats.sequential import (
        ROUNDS,
        Decision,
        Look,
        SequentialState,
        look_at,
        make_sequential,
        round_fault,
        sequential_state,
    )
    from bench.stats.standing import (
        KS,
        PROFILES,
        Estimate,
        Passes,
        RankedStanding,
        Standing,
        estimate,
        rank,
        standings_of,
    )
    from bench.stats.step_causes import (
        Moved,
        Shared,
        attribute,
        category_drops,
        control_of,
        moved_cases,
        moved_categories,
        series_levels,
    )
    from bench.stats.tally import (
        LOST,
        PLACES,
        Cost,
        Tally,
        agent_seconds,
        input_tokens,
        output_tokens,
        sum_known,
        total_of,
    )
    from bench.stats.tests import Rules
    from bench.stats.trends import Drop, Level, Series, case_nights, nightly, standing_drop
    from bench.stats.verdict import Judgement
    from bench.stats.versus import HeadToHead, heads_to_heads
else:
    __getattr__ = lazy_face(__name__)
