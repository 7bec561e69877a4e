"""The plots as files: SVG that stands alone, beside a CSV of its numbers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from bench.base.errors import UserError
from bench.base.files import write_atomic
from bench.pages.board import CaseInfo, make_board
from bench.pages.data import harmless
from bench.pages.drawing import ChartCache
from bench.pages.news import trends_of
from bench.pages.plots import Group, Plot, groups_of, plots_of
from bench.pages.views import details_of
from bench.stats import Results

_VARIABLE = re.compile(r"--([a-z0-9-]+):\s*([^;]+);")
_USED = re.compile(r"var\(--([a-z0-9-]+)\)")
_RULE = re.compile(r"(\.(?:ink|line)-[a-z]+) \{ ([^}]*) \}")
_SVG = '<svg class="chart"'


def write_plots(
    results: Results, cases: Sequence[CaseInfo], out: Path, site: Path, charts: Path | None = None
) -> list[Path]:
    """Write each plot as SVG and as CSV; the files, in their order. Raises `UserError` where there is nothing to draw.

    results: measured against the suite of `cases`. site: its sources. charts: a folder that keeps drawn charts.
    """
    board = make_board(results, cases, "")
    details = details_of(results, board, trends_of(results, board.cases))
    files = list(plot_files(groups_of(board, details), site, ChartCache(charts)))
    if not files:
        raise UserError(
            "no cell of these cases was graded", where="results", remedy="run some, or name another --suite"
        )
    for name, content in files:
        write_atomic(out / name, content)
    return [out / name for name, _ in files]


def plot_files(groups: Sequence[Group], site: Path, charts: ChartCache) -> Iterator[tuple[str, bytes]]:
    """Each file's name and content. `site`: the sources, whose style names the colours."""
    style = _style(site)
    for group in groups:
        for plot in plots_of(group, charts.svg):
            svg = plot.chart.sizes.get("wide") or plot.chart.sizes["any"]
            yield f"{plot.name}-{group.name}.svg", _alone(str(svg), style)
            yield f"{plot.name}-{group.name}.csv", _csv(plot)


def _alone(svg: str, style: str) -> bytes:
    if not svg.startswith(_SVG):
        raise ValueError("is not a drawing of `to_svg`")
    opened, end, rest = svg.partition(">")
    head = opened.replace(_SVG, '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}{end}<style>{escape(style)}</style>{rest}\n'.encode()


def _style(site: Path) -> str:
    """The colours of a chart in the light, without variables, which many programs that read SVG do not know."""
    path = site / "static" / "style.css"
    text = path.read_text(encoding="utf-8")
    colours = dict(reversed(_VARIABLE.findall(text.partition("@media")[0])))
    rules = [f"{name}{{{_USED.sub(lambda it: colours[it[1]], said)}}}" for name, said in _RULE.findall(text)]
    if not rules:
        raise UserError("has no colours of charts", where=path, remedy="name the folder with the site's sources")
    return "svg{background:#fff;fill:none}text{font-family:sans-serif}" + "".join(rules)


def _csv(plot: Plot) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(plot.columns)
    writer.writerows([harmless(value) for value in row] for row in plot.rows)
    return out.getvalue().encode("utf-8", "replace")
