"""A record, a run or a board as text.

`lines` for terminals, `markdown` for the page of a workflow run or a comment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.report.explain import explanation, put_explanation
    from bench.report.improvement import (
        bars_header,
        bars_rows,
        estimate_text,
        headline_document,
        improvement_text,
    )
    from bench.report.lines import (
        improvement_table,
        leaderboard,
        look_line,
        outcome_line,
        sequential_document,
        sequential_lines,
        table,
    )
    from bench.report.markdown import render, render_gate
    from bench.report.sheet import Sheet
    from bench.report.step_text import put_steps, totals_line
    from bench.report.why import Reason, failed_check_line, reasons
else:
    __getattr__ = lazy_face(__name__)
