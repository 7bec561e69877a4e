"""Gives the program paragraphs over a bibliography that nobody has seen, and compares each citation with the record."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from shelf import Shelf, laid_out
from tex import Entry, citations, entries

from bench.judge import check, once

BAR, STRONG, LEAST_EQUAL, LEAST_RIGHT = 1.1, 0.9, 0.95, 0.9
EARLIER = {
    "cited.tex": "Of an earlier run.\n" * 500,
    "references.bib": "@article{of2020earlier,\n  title={An earlier run}\n}\n" * 200,
}


NAMES = ("text [draft].v0.txt", "it's 100% of $HOME & more.txt", "what now? *.txt", "été {1}")
"""Any name is promised: what would be a pattern or an instruction to a shell is only a name here."""


@dataclass(frozen=True)
class Answer:
    """Of one paragraph: pairs of a sentence and a cited key, and the entries."""

    pairs: frozenset[tuple[int, str]]
    entries: list[Entry]


@check(guard=True)
def answers_are_complete(ws: Any) -> None:
    """The paragraph stays as it was but for cite commands; each cited key has one entry, and each entry is cited."""
    _answers(ws)


@check(guard=True)
def entries_are_true(ws: Any) -> None:
    """At least nineteen of twenty entries have all required fields and are those of the bibliography."""
    found = [entry for answer in _answers(ws) for entry in answer.entries]
    if found:
        valid, equal = _shares(ws, _answers(ws))
        assert min(valid, equal) >= LEAST_EQUAL, f"{valid:.0%} of the entries are valid, {equal:.0%} are true"


@check(weight=10, required=True)
def model_is_asked(ws: Any) -> None:
    """The language model is asked about every paragraph."""
    _answers(ws)
    paragraphs = [[sentence for sentence, _ in it] for it in _shelf(ws).paragraphs]
    asked = [event for event in ws.journal("model", during="judging") if event["event"] == "asked"]
    told = [" ".join(" ".join(message["content"] for message in event["messages"]).split()) for event in asked]
    for number, paragraph in enumerate(paragraphs):
        seen = all(any(sentence in text for text in told) for sentence in paragraph)
        assert seen, f"the model was not shown every sentence of paragraph {number + 1}"


@check(weight=40, required=True)
def ten_percent_better(ws: Any) -> None:
    """The score is more than 10 % above that of the starter, worked out for the same paragraphs."""
    score, baseline = _score(ws, _answers(ws)), _baseline(ws)
    assert score > BAR * baseline, f"score {score:.3f}, wanted more than {BAR * baseline:.3f}"


@check(weight=10, required=True)
def citations_are_right(ws: Any) -> None:
    """Nine of ten citations are the work that their sentence needs, and nine of ten that are needed are there."""
    right, cited, meant = _counts(ws, _answers(ws))
    assert right >= LEAST_RIGHT * cited, f"{right} of {cited} citations are right, {LEAST_RIGHT:.0%} are needed"
    assert right >= LEAST_RIGHT * meant, (
        f"{right} of {meant} sentences have their citation, {LEAST_RIGHT:.0%} are needed"
    )


@check(weight=40)
def citation_score(ws: Any) -> float:
    """Credit for F1 times the valid share times the true share: from 0 at the starter's to 1 at 0.9."""
    score = _score(ws, _answers(ws))
    ws.metric("citation_score", score)
    ws.metric("citation_f1", _f1(ws, _answers(ws)))
    return float(ws.scale(score, floor=_baseline(ws), target=STRONG))


@once
def _shelf(ws: Any) -> Shelf:
    return Shelf.of(json.loads(ws.hidden("judging.json").path.read_text("utf-8")))


@once
def _answers(ws: Any) -> list[Answer]:
    """For each paragraph; one without a citation, for which there may be no entry at all, is not part of the score."""
    paragraphs = _shelf(ws).paragraphs
    _answer(ws, 0, [sentence for sentence, key in paragraphs[0] if not key])
    return [_answer(ws, at, [sentence for sentence, _ in it]) for at, it in enumerate(paragraphs)]


def _answer(ws: Any, number: int, sentences: list[str]) -> Answer:
    path = f"given/part {number}/{NAMES[number % len(NAMES)]}"
    given = {path: laid_out(sentences, number), **EARLIER}
    ran = ws.run(["python", "bibtex_generation.py", path], inputs=given).ok()
    try:
        pairs = frozenset(citations(ran.text("cited.tex", max_mb=0.1), sentences))
        written = ran.text("references.bib", max_mb=0.1)
        found = entries(written)
    except ValueError as fault:
        raise AssertionError(str(fault)[:300]) from None
    assert found or not written.strip(), "references.bib has no entry and is not empty"
    keys = [entry.key for entry in found]
    assert len(keys) == len(set(keys)), f"references.bib has an entry twice: {max(keys, key=keys.count)[:60]}"
    cited = {key for _, key in pairs}
    assert cited <= set(keys), f"{min(cited - set(keys))[:60]} is cited and has no entry"
    assert set(keys) <= cited, f"{min(set(keys) - cited)[:60]} has an entry and is not cited"
    return Answer(pairs, found)


@once
def _baseline(ws: Any) -> float:
    """The starter: in every sentence the first work that a search for it finds."""
    shelf = _shelf(ws)
    answers = []
    for paragraph in shelf.paragraphs:
        hits = [(at, shelf.search(sentence)[:1]) for at, (sentence, _) in enumerate(paragraph)]
        answers.append(Answer(frozenset((at, hit[0].key) for at, hit in hits if hit), []))
    return _f1(ws, answers)


def _score(ws: Any, answers: list[Answer]) -> float:
    valid, equal = _shares(ws, answers)
    return _f1(ws, answers) * valid * equal


def _f1(ws: Any, answers: list[Answer]) -> float:
    right, cited, meant = _counts(ws, answers)
    return 2 * right / (cited + meant)


def _counts(ws: Any, answers: list[Answer]) -> tuple[int, int, int]:
    """Pairs of a sentence and a key, of all paragraphs together: that are right, that are cited, that are meant.

    Who cites two works in one sentence has not found the one that it means.
    """
    right = cited = meant = 0
    for answer, paragraph in zip(answers, _shelf(ws).paragraphs, strict=True):
        wanted = {(at, key) for at, (_, key) in enumerate(paragraph) if key}
        works = Counter(at for at, _ in answer.pairs)
        right += sum(works[at] == 1 for at, _ in wanted & answer.pairs)
        cited, meant = cited + len(answer.pairs), meant + len(wanted)
    return right, cited, meant


def _shares(ws: Any, answers: list[Answer]) -> tuple[float, float]:
    """Of all entries: which have the required fields, and which equal the record of their key."""
    found = [entry for answer in answers for entry in answer.entries]
    valid = sum(entry.valid for entry in found)
    equal = sum(_is_true(ws, entry) for entry in found)
    return (valid / len(found), equal / len(found)) if found else (1.0, 1.0)


def _is_true(ws: Any, entry: Entry) -> bool:
    record = _shelf(ws).records.get(entry.key)
    return record is not None and (entry.kind, entry.fields) == (record.kind, record.fields)
