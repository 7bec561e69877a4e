"""Statistics: what records say about agents, with what certainty, and what has changed.

`standings` and `rank` make a board, `compare_records` a verdict, `nightly` and `find_steps` trends, `power` a plan.
Every formula names its source; pure functions of records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.stats.choice import Chosen as Chosen
    from bench.stats.choice import Filters as Filters
    from bench.stats.choice import Stored as Stored
    from bench.stats.choice import choose as choose
    from bench.stats.compare import Compared as Compared
    from bench.stats.compare import Comparison as Comparison
    from bench.stats.compare import compare_records as compare_records
    from bench.stats.effort import Cost as Cost
    from bench.stats.effort import agent_seconds as agent_seconds
    from bench.stats.effort import input_tokens as input_tokens
    from bench.stats.effort import output_tokens as output_tokens
    from bench.stats.intervals import Interval as Interval
    from bench.stats.pairing import MEASURES as MEASURES
    from bench.stats.power import Components as Components
    from bench.stats.power import Design as Design
    from bench.stats.power import Price as Price
    from bench.stats.power import Question as Question
    from bench.stats.power import cases_needed as cases_needed
    from bench.stats.power import components as components
    from bench.stats.power import designs as designs
    from bench.stats.power import price as price
    from bench.stats.power import trials_needed as trials_needed
    from bench.stats.results import CaseSeen as CaseSeen
    from bench.stats.results import CheckShares as CheckShares
    from bench.stats.results import Findings as Findings
    from bench.stats.results import Measured as Measured
    from bench.stats.results import RecordResults as RecordResults
    from bench.stats.results import Results as Results
    from bench.stats.results import Suite as Suite
    from bench.stats.results import Trial as Trial
    from bench.stats.results import Version as Version
    from bench.stats.standing import KS as KS
    from bench.stats.standing import Entrant as Entrant
    from bench.stats.standing import Estimate as Estimate
    from bench.stats.standing import Passes as Passes
    from bench.stats.standing import RankedStanding as RankedStanding
    from bench.stats.standing import Standing as Standing
    from bench.stats.standing import entrant_of as entrant_of
    from bench.stats.standing import model_label as model_label
    from bench.stats.standing import rank as rank
    from bench.stats.standing import standings as standings
    from bench.stats.standing import standings_of as standings_of
    from bench.stats.tally import LOST as LOST
    from bench.stats.tally import PLACES as PLACES
    from bench.stats.tally import Tally as Tally
    from bench.stats.tests import Rules as Rules
    from bench.stats.trends import CaseNight as CaseNight
    from bench.stats.trends import Drop as Drop
    from bench.stats.trends import Level as Level
    from bench.stats.trends import Series as Series
    from bench.stats.trends import case_nights as case_nights
    from bench.stats.trends import find_levels as find_levels
    from bench.stats.trends import find_steps as find_steps
    from bench.stats.trends import nightly as nightly
    from bench.stats.trends import standing_drop as standing_drop
else:
    __getattr__ = lazy_face(
        __name__,
        {
            "choice": "Chosen Filters Stored choose",
            "compare": "Compared Comparison compare_records",
            "effort": "Cost agent_seconds input_tokens output_tokens",
            "intervals": "Interval",
            "pairing": "MEASURES",
            "power": "Components Design Price Question cases_needed components designs price trials_needed",
            "results": "CaseSeen CheckShares Findings Measured RecordResults Results Suite Trial Version",
            "standing": (
                "Entrant Estimate KS Passes RankedStanding Standing entrant_of model_label rank standings standings_of"
            ),
            "tally": "LOST PLACES Tally",
            "tests": "Rules",
            "trends": "CaseNight Drop Level Series case_nights find_levels find_steps nightly standing_drop",
        },
    )
