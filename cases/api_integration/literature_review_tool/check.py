"""Asks the program questions about a library that nobody has seen, and measures lists and summaries against it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from library import Library, Paper
from search import Search
from support import copied, different, sentences, supported, words

from bench.casekit.texts import plain_text
from bench.judge import check, mapping, once, sequence, string

PAPERS, MOST_WORDS, LEAST_SENTENCES, RUN_S = 10, 60, 2, 60
EARLIER = json.dumps({"query": "an earlier question", "papers": [], "conclusion": "", "notes": "earlier " * 20_000})
BAR, STRONG, LEAST_ORDER, LEAST_OF_ONE, LEAST_SUPPORTED = 1.1, 0.95, 0.85, 0.6, 0.95


@dataclass(frozen=True)
class Measured:
    """Means over all questions, each from 0 to 1."""

    orders: dict[str, float]
    known: float
    told: float

    @property
    def order(self) -> float:
        return sum(self.orders.values()) / len(self.orders)

    @property
    def score(self) -> float:
        return 0.5 * self.order + 0.25 * self.known + 0.25 * self.told


@check(guard=True)
def reviews_are_complete(ws: Any) -> None:
    """For each question there is a new report of ten papers, made with the model: titles, summaries, a conclusion."""
    _reviews(ws)


@check(guard=True)
def summaries_are_own_words(ws: Any) -> None:
    """At most a tenth of all sentences of the summaries is copied from the abstract, whole or in pieces."""
    papers, _ = _library(ws)
    told = [
        (sentence, papers[paper])
        for review in _reviews(ws).values()
        for paper, summary in review
        if paper in papers
        for sentence in sentences(summary)
    ]
    taken = sum(copied(sentence, paper.abstract) for sentence, paper in told)
    assert taken <= 0.1 * len(told), f"{taken} of {len(told)} sentences are copied from an abstract"


@check(weight=15, required=True)
def summaries_are_supported(ws: Any) -> None:
    """At least nineteen of twenty sentences of the summaries are supported by the abstract of their paper."""
    told = _measured(ws).told
    assert told >= LEAST_SUPPORTED, f"{told:.0%} of the sentences are supported, {LEAST_SUPPORTED:.0%} are needed"


@check(weight=10, required=True)
def relevant_papers_are_first(ws: Any) -> None:
    """The mean nDCG at 10 is above 0.85: the right ten in any order reach 0.83. No question is left out of it."""
    order, orders = _measured(ws).order, _measured(ws).orders
    for query, one in orders.items():
        assert one > LEAST_OF_ONE, f"nDCG at 10 is {one:.3f} for {query!r}, wanted more than {LEAST_OF_ONE}"
    assert order > LEAST_ORDER, f"nDCG at 10 is {order:.3f}, wanted more than {LEAST_ORDER}"


@check(weight=25, required=True)
def ten_percent_better(ws: Any) -> None:
    """The score is more than 10 % above that of the starter, worked out for the same questions."""
    score, baseline = _measured(ws).score, _baseline(ws).score
    assert score > BAR * baseline, f"score {score:.3f}, wanted more than {BAR * baseline:.3f}"


@check(weight=50)
def review_score(ws: Any) -> float:
    """Credit for the score: from 0 at the starter's to 1 at 0.95."""
    measured = _measured(ws)
    ws.metric("review_score", measured.score)
    ws.metric("ndcg_at_10", measured.order)
    ws.metric("supported_sentences", measured.told)
    return float(ws.scale(measured.score, floor=_baseline(ws).score, target=STRONG))


Review = list[tuple[str, str]]


@once
def _library(ws: Any) -> tuple[dict[str, Paper], Library]:
    library = Library.of(json.loads(ws.hidden("judging.json").path.read_text("utf-8")))
    return {paper.id: paper for paper in library.papers}, library


@once
def _reviews(ws: Any) -> dict[str, Review]:
    """For each question the listed ids, in order, with their summaries."""
    papers, library = _library(ws)
    reports: dict[str, dict[str, Any]] = {}
    left: dict[str, bytes | str] = {"report.json": EARLIER}
    for query in library.queries:
        # Where the one before was asked: what the first leaves must not count for the last, about many of its papers.
        reports[query], left = _report(ws, query, left)
    conclusions = {" ".join(plain_text(string(report["conclusion"])).split()) for report in reports.values()}
    assert len(conclusions) == len(reports), "two questions have the same conclusion"
    return {query: _review(report, query, papers) for query, report in reports.items()}


def _report(ws: Any, query: str, lies_there: dict[str, bytes | str]) -> tuple[dict[str, Any], dict[str, bytes | str]]:
    """What the program writes where an earlier question was asked, and all that it leaves there."""
    before = len(ws.journal("model", during="judging"))
    ran = ws.run(["python", "literature_review.py", query], inputs=lies_there, timeout=RUN_S).ok()
    report: dict[str, Any] = mapping(ran.json("report.json"), keys=("query", "papers", "conclusion"))
    assert "notes" not in report, "the report has a part of an earlier one"
    asked = [event for event in ws.journal("model", during="judging")[before:] if event["event"] == "asked"]
    assert asked, f"the language model was not asked anything about {query!r}"
    left = [path for path in ran.files() if not ws.exists(path) or ran.sha256(path) != ws.sha256(path)]
    return report, {path: ran.bytes(path) for path in left}


def _review(report: dict[str, Any], query: str, known: dict[str, Paper]) -> Review:
    assert string(report["query"]) == query, "the report is not about the question that was asked"
    fewest, most = _lengths(string(report["conclusion"]))
    assert fewest <= 200 and most >= 20, f"the conclusion has {most} words, not 20 to 200"
    papers = sequence(report["papers"], length=PAPERS)
    listed: Review = []
    for one in papers:
        found = mapping(one, keys=("id", "title", "summary"))
        paper, title, summary = (string(found[name]) for name in ("id", "title", "summary"))
        wanted = known[paper].title if paper in known else title
        assert title.split() == wanted.split(), f"{title[:80]!r} is not the title of {paper}"
        fewest, _ = _lengths(summary)
        assert fewest <= MOST_WORDS, f"a summary has {fewest} words, at most {MOST_WORDS} are allowed"
        listed.append((paper, summary))
    assert len({paper for paper, _ in listed}) == PAPERS, "a paper is listed twice"
    return listed


def _lengths(text: str) -> list[int]:
    """Of two ways to count words, the smaller number first: `single-accelerator` is one or two, and either is right."""
    return sorted((len(plain_text(text).split()), len(words(text))))


@once
def _measured(ws: Any) -> Measured:
    return _measure(ws, _reviews(ws))


@once
def _baseline(ws: Any) -> Measured:
    """The starter: the first ten hits of the question itself, and what the model says of them, unread."""
    papers, library = _library(ws)
    search = Search(library.papers)
    hits = {query: search.ranked(f"all:{query}")[:PAPERS] for query in library.queries}
    return _measure(ws, {query: [(it, " ".join(papers[it].told)) for it in found] for query, found in hits.items()})


def _measure(ws: Any, reviews: dict[str, Review]) -> Measured:
    papers, library = _library(ws)
    orders = {query: _ndcg([it for it, _ in review], library.relevant(query)) for query, review in reviews.items()}
    listed = [(papers.get(it), summary) for review in reviews.values() for it, summary in review]
    known = sum(paper is not None for paper, _ in listed)
    told = sum(_supported_share(paper, summary) for paper, summary in listed)
    return Measured(orders, known / len(listed), told / len(listed))


def _ndcg(listed: list[str], relevant: list[str]) -> float:
    """Normalised discounted cumulative gain of the first ten, with gains of 0 and 1."""
    gains = [1 / math.log2(place + 2) for place in range(PAPERS)]
    reached = sum(gain for gain, it in zip(gains, listed, strict=True) if it in relevant)
    return reached / sum(gains[: len(relevant)])


def _supported_share(paper: Paper | None, summary: str) -> float:
    """Of the different sentences of one summary; a single one counts half, and what is copied counts nothing."""
    if paper is None:
        return 0.0
    found = different(sentences(summary))
    good = sum(supported(it, paper.abstract) and not copied(it, paper.abstract) for it in found)
    return good / max(LEAST_SENTENCES, len(found))
