"""The pages of the site: where each is, what it is made from, and how. A page is made when it is written, or never."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any
from urllib.parse import urljoin, urlsplit

from bench.formats.failures import PAPER_TERMS
from bench.formats.record import Profile
from bench.pages.addresses import agent_page, case_page, social_page
from bench.pages.board import Board, CaseInfo, Row, Section
from bench.pages.cell_files import CellFiles
from bench.pages.cell_trace import CellTrace, read_cell
from bench.pages.charts import category_chart, cost_chart, trend_chart
from bench.pages.costs import AtBudget, ByCategory, Point, at_budgets, by_category, frontier, labels_of, points_of
from bench.pages.data import DataFile
from bench.pages.drawing import Chart, ChartCache
from bench.pages.entries import Entry
from bench.pages.history import Spending, by_case, difficulty_chart, spending_chart, spending_of, verdicts_of
from bench.pages.markdown import rendered
from bench.pages.matrix import MOST_VERSUS, Pair, matrix_of, versus_of
from bench.pages.news import Trend, tonight
from bench.pages.plots import groups_of, plots_of
from bench.pages.render import Renderer
from bench.pages.sheet import Sheet
from bench.pages.traces import Kept, TraceState, trace_page
from bench.pages.views import AgentView, Details, agent_view, case_view, details_of
from bench.stats import CasePeriod, Entrant, Results, Spent, TokenUse
from bench.store import Decision

Facts = Mapping[str, object]
NOT_FOUND = "404.html"
_NO_TRACE: tuple[TraceState, None] = TraceState(), None


@dataclass(frozen=True)
class CellSheet:
    """The page of a cell, with what it shows beside facts of the site."""

    entry: Entry
    trace: TraceState
    sheet: Sheet


@dataclass(frozen=True)
class Published:
    """Figures of papers beside what is measured here, as site/published.json has them."""

    tables: Sequence[Mapping[str, Any]] = ()
    """`of` is what its rows are of: a `suite`, or each of a `case`, which the first column names as the paper does."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What a paper calls a case, by the id of its original, where the two differ."""
    left_out: Sequence[str] = ()
    """What is quoted elsewhere and not repeated, and why."""

    def of_case(self, case: CaseInfo) -> list[Mapping[str, Any]]:
        """The tables that have a row of the case's original, with this row alone."""
        found: list[Mapping[str, Any]] = []
        named = self.names.get(case.source_id, case.source_id)
        for table in self.tables:
            rows = [row for row in table["rows"] if table["of"] == "case" and row[0] == named]
            found += [{**table, "rows": rows}] if rows else []
        return found


@dataclass(frozen=True)
class SiteFacts:
    """What every page shows."""

    title: str
    suite: str = ""
    suite_about: str = ""
    """How its cases were chosen."""
    base: str = ""
    """The address at which the site is served, empty where it is not known."""
    published: Published = field(default_factory=Published, repr=False)
    decisions: Sequence[Decision] = field(default=(), repr=False)
    example: str = ""
    """Of a board of made-up results: what every page says about it."""


@dataclass(frozen=True)
class CostSection:
    """Costs in one profile."""

    profile: Profile
    points: Sequence[Point]
    frontier: Sequence[str]
    by_success: Sequence[AtBudget]
    by_score: Sequence[AtBudget]
    categories: Sequence[str]
    rows: Sequence[ByCategory]
    board: Sequence[Row]
    spent: Sequence[Spending]
    """By day, further back by week, the oldest first."""
    tokens: Mapping[Entrant, TokenUse]


class Sheets:
    """Every page of a board."""

    def __init__(
        self,
        site: SiteFacts,
        board: Board,
        results: Results,
        trends: Mapping[Entrant, Trend],
        renderer: Renderer,
        charts: ChartCache,
    ) -> None:
        self._site = site
        self._board = board
        self._results = results
        self._trends = trends
        self._renderer = renderer
        self._draw = charts.svg
        self._read: tuple[str, CellTrace] | None = None

    @cached_property
    def details(self) -> Details:
        return details_of(self._results, self._board, self._trends)

    @cached_property
    def cell_files(self) -> CellFiles:
        listed = {case: len(it) for case, it in self.details.cells.items()}
        return CellFiles(self._results, self._board, listed)

    def files(self) -> list[Sheet]:
        """Of the cells beyond those that have a page."""
        return [sheet for _, sheet in self.cell_files.every()]

    def trace(self, entry: Entry, kept: Kept) -> Sheet:
        """The file of a trace; making it raises `UserError` where the trace cannot be read."""
        return self._sheet(
            "trace.html",
            trace_page(entry.address),
            {"entry": entry, "digest": kept.digest},
            lambda: {"told": self._told(entry.address, kept)},
        )

    def _told(self, address: str, kept: Kept) -> CellTrace:
        """The last one read is held: its file and its page are made one after the other where both are new."""
        if self._read is None or self._read[0] != address:
            with kept.opened() as folder:
                self._read = address, read_cell(folder)
        return self._read[1]

    def cells(self, traces: Mapping[str, tuple[TraceState, Kept | None]]) -> Iterator[CellSheet]:
        """`traces`: by address of the cell's page."""
        for entry in self._board.entries:
            state, kept = traces.get(entry.address, _NO_TRACE)
            drawn = partial(self._cell_trace, entry.address, kept if state.page else None)
            facts = {"entry": entry, "trace": state}
            yield CellSheet(entry, state, self._sheet("cell.html", entry.address, facts, drawn))

    def _cell_trace(self, address: str, kept: Kept | None) -> Facts:
        return {"told": self._told(address, kept) if kept else None}

    def every(self, pairs: Mapping[Profile, Sequence[Pair]], files: Sequence[DataFile]) -> Iterator[Sheet]:
        """All but those of cells."""
        board = self._board
        yield self._front()
        yield self._costs()
        yield self._plots()
        yield self._sheet("cases.html", "cases.html", {"board": replace(board, entries=())})
        sections = matrix_of(board)
        yield self._sheet("matrix.html", "matrix.html", {"sections": sections})
        versus = [versus_of(section, pairs[section.profile]) for section in board.sections]
        shown = {"versus": versus, "most": MOST_VERSUS, "names": self._names()}
        yield self._sheet("versus.html", "versus.html", shown)
        yield self._sheet("compare.html", "compare.html", {"sections": bool(board.sections)})
        news = tonight(self.details.trends)
        yield self._sheet(
            "news.html", "news.html", {"news": news, "cases": {it.id: it.title for it in board.cases.values()}}
        )
        decided = verdicts_of(self._site.decisions)
        yield self._sheet("decisions.html", "decisions.html", {"decided": decided})
        yield self._sheet("method.html", "method.html", {"cases": len(board.cases), "terms": PAPER_TERMS})
        yield self._sheet("data.html", "data.html", {"files": files, "built_from": board.built_from})
        yield self._sheet("take-part.html", "take-part.html", {"first": next(iter(board.cases), "")})
        if self._site.base:
            yield self._not_found()
        yield from self._cases()
        yield from self._agents()

    def _sheet(self, template: str, address: str, facts: Facts, drawn: Callable[[], Facts] = dict) -> Sheet:
        """`drawn`: parts that take long and follow from `facts`."""
        everything = {"site": self._site, **facts}

        def make() -> bytes:
            return self._renderer.page(template, address, {**everything, **drawn()})

        return Sheet(address, f"{template} {everything!r}", make)

    def _not_found(self) -> Sheet:
        """What GitHub Pages shows at an address where nothing is: a page of a cell has not been there for ever."""
        root = urlsplit(urljoin(self._site.base, ".")).path or "/"
        facts = {"site": self._site, "cases": list(self._board.pages.values())}
        make = partial(self._renderer.page, NOT_FOUND, NOT_FOUND, facts, root)
        return Sheet(NOT_FOUND, f"{NOT_FOUND} {root} {facts!r}", make)

    def _front(self) -> Sheet:
        board = replace(self._board, entries=())
        facts = {"board": board, "published": self._site.published, "results": board.results}
        return self._sheet("index.html", "index.html", facts, lambda: {"charts": self._charts(("success",))})

    def _costs(self) -> Sheet:
        spending, tokens = self._results.spending(), self._results.token_use()
        sections = [self._cost_section(section, spending, tokens) for section in self._board.sections]

        def drawn() -> Facts:
            spent = {
                it.profile: spending_chart(it.spent, f"spent-{it.profile}", it.profile, self._draw) for it in sections
            }
            return {"charts": self._charts(("success", "score")), "spent": spent}

        return self._sheet("costs.html", "costs.html", {"sections": sections}, drawn)

    def _plots(self) -> Sheet:
        groups = groups_of(self._board, self.details)

        def drawn() -> Facts:
            return {"plots": {group.name: plots_of(group, self._draw) for group in groups}}

        return self._sheet("plots.html", "plots.html", {"groups": groups}, drawn)

    def _charts(self, measures: Sequence[str]) -> dict[str, list[Chart]]:
        found: dict[str, list[Chart]] = {}
        for section in self._board.sections:
            points = points_of([row.place for row in section.charted])
            drawn = [cost_chart(points, it, f"{it}-{section.profile}", section.profile, self._draw) for it in measures]
            found[section.profile] = [it for it in drawn if it]
        return found

    def _names(self) -> dict[Entrant, str]:
        found: dict[Entrant, str] = {}
        for section in self._board.sections:
            found |= labels_of([row.place for row in section.competitors])
        return found

    def _cases(self) -> Iterator[Sheet]:
        files = self.cell_files.of_case()
        periods = by_case(self._results.case_periods())
        for case in self._board.pages.values():
            own = files.get(case.id, ())
            view = case_view(self._board, case, self.details)
            found = {section.profile: periods.get((section.profile, case.id), ()) for section in view.sections}
            facts = {"view": view, "periods": found, "published": self._site.published.of_case(case)}
            facts |= {"files": own, "files_hold": sum(it.cells for it in own)}
            yield self._sheet("case.html", case_page(case.id), facts, partial(self._case_parts, case, found))

    def _agents(self) -> Iterator[Sheet]:
        profiles: dict[str, list[Entrant]] = defaultdict(list)
        for section in self._board.sections:
            for row in section.everyone:
                profiles[agent_page(row.standing.entrant)].append(row.standing.entrant)
        for address, entrants in profiles.items():
            view = agent_view(self._board, entrants, self.details)
            yield self._sheet("agent.html", address, {"view": view}, partial(self._agent_charts, view))

    def _case_parts(self, case: CaseInfo, periods: Mapping[Profile, Sequence[CasePeriod]]) -> Facts:
        charts = {it: difficulty_chart(them, f"over-time-{it}", it, self._draw) for it, them in periods.items()}
        return {"task": rendered(case.task), "readme": rendered(case.readme), "charts": charts}

    def _agent_charts(self, view: AgentView) -> Facts:
        found: dict[str, list[Chart]] = {}
        for part in view.sections:
            who = part.row.standing.entrant
            trend = trend_chart(part.trend, f"trend-{who.profile}", who.agent, draw=self._draw) if part.trend else None
            categories = category_chart(part.categories, f"categories-{who.profile}", who.agent, self._draw)
            found[who.profile] = [it for it in (trend, categories) if it]
        return {"charts": found, "social": social_page(view.entrant)}

    def _cost_section(
        self, section: Section, spending: Sequence[Spent], tokens: Mapping[Entrant, TokenUse]
    ) -> CostSection:
        cases = self._board.cases
        rows = [row.place for row in section.charted]
        points = points_of(rows)
        names, categories = by_category(rows, {case.id: case.category for case in cases.values()})
        return CostSection(
            section.profile,
            points,
            [it.label for it in frontier(points, "success")],
            at_budgets(frontier(points, "success"), "success"),
            at_budgets(frontier(points, "score"), "score"),
            names,
            categories,
            section.charted,
            spending_of(spending, section.profile),
            tokens,
        )
