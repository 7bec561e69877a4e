"""A record, a run or a board as text.

`lines` for terminals, `markdown` for the page of a workflow run or a comment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.report.lines import leaderboard, look_line, outcome_line, sequential_document, sequential_lines, table
    from bench.report.markdown import render, render_gate
else:
    __getattr__ = lazy_face(__name__)
