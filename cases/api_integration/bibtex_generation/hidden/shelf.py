"""An invented bibliography, paragraphs that cite some of it, and the search over its titles and snippets.

A sentence that must cite has the name of a method, a claim, or authors with a year; each belongs to one record. Others
look alike: what the writers did themselves, and what everybody knows. Each name has later works about it, which come up
in the same search.
"""

from __future__ import annotations

import math
import random
import re
import textwrap
from dataclasses import dataclass
from typing import Any

THINGS = (
    "gradient clipping", "dropout masks", "weight decay", "batch statistics", "learning rate warm-up",
    "label smoothing", "data augmentation", "residual pathways", "attention heads", "token embeddings", "beam search",
    "early stopping",
    "layer scaling", "sparse experts", "positional codes", "replay buffers",
)  # fmt: skip
EFFECTS = (
    "stabilise training with large batches", "reduce the variance of small test sets",
    "improve calibration on rare classes", "shorten the time to convergence", "hurt transfer to distant domains",
    "raise robustness to corrupted inputs", "lower memory use on long sequences", "prevent collapse of deep encoders",
)  # fmt: skip
KINDS = ("optimiser", "encoder", "tokeniser", "benchmark", "sampler", "regulariser")
VENUES = (
    ("article", "journal", "Journal of Learning Machines"),
    ("article", "journal", "Annals of {AI} & Statistics"),
    ("article", "journal", "Zeitschrift für Lernverfahren — Méthodes"),
    ("inproceedings", "booktitle", "Proceedings of the Conference on Neural Methods"),
    ("inproceedings", "booktitle", r"Workshop on Efficient Models, M{\"u}nchen"),
)
PLAIN = (
    "We train every model for {n} epochs on one machine with $\\eta^2 < 10^{{-3}}$.",
    "All results are means over {n} seeds.",
    "In our own runs {thing} were switched on after {n} steps.",
    "Our own {kind}, {name}, is described in the next section.",
    "The code (about 5000 lines, 10% of them #comments) is written in Python & runs on any nai\u0308ve laptop.",
    "Table {n} lists the sizes of all models, x² and \\emph{{log_2}} among them.",
    "We found that {thing} made no difference in our readers\u2019 setting.",
)

# Only in the judge's paragraphs: who goes by the wording, and not by what the model finds, errs on these.
OBVIOUS = ("It goes without saying that {thing} cost time.", "Nobody doubts that {thing} are in wide use.")
NAMED = ("Nothing here departs from the {name} {kind} in its original form.", "A common choice for all this is {name}.")
CLAIMED = ("Earlier studies agree that {} {}.", "Several groups report that {} {}.")


@dataclass(frozen=True)
class Record:
    """One entry: its BibTeX as it is handed out, and what a search shows of it."""

    key: str
    kind: str
    fields: dict[str, str]
    snippet: str

    def bibtex(self) -> str:
        inner = ",\n".join(f"  {name}={{{value}}}" for name, value in self.fields.items())
        return f"@{self.kind}{{{self.key},\n{inner}\n}}\n"


@dataclass(frozen=True)
class Shelf:
    """Records; paragraphs as sentences, each with the key that it must cite, or none."""

    records: dict[str, Record]
    paragraphs: list[list[tuple[str, str | None]]]

    def plain(self) -> dict[str, Any]:
        return {"records": [vars(it) for it in self.records.values()], "paragraphs": self.paragraphs}

    @staticmethod
    def of(plain: dict[str, Any]) -> Shelf:
        records = [Record(**it) for it in plain["records"]]
        paragraphs = [[(text, key) for text, key in paragraph] for paragraph in plain["paragraphs"]]
        return Shelf({it.key: it for it in records}, paragraphs)

    def search(self, text: str) -> list[Record]:
        """Records that share words with the text, those with more and rarer ones first."""
        held = {key: set(_words(f"{it.snippet} {' '.join(it.fields.values())}")) for key, it in self.records.items()}
        score = dict.fromkeys(held, 0.0)
        for word in set(_words(text)):
            found = [key for key in held if word in held[key]]
            for key in found:
                score[key] += math.log(1 + len(held) / len(found))
        ranked = sorted((key for key in held if score[key]), key=lambda it: (-round(score[it], 6), it[::-1]))
        return [self.records[key] for key in ranked]


def laid_out(sentences: list[str], way: int) -> str:
    """The text of a paragraph: on one line, broken between words, a line for each sentence, or with wide gaps."""
    line = " ".join(sentences)
    broken = textwrap.fill(line, 50, break_long_words=False, break_on_hyphens=False)
    return (line, broken, "\n".join(sentences), "  " + "  ".join(sentences))[way % 4] + "\n"


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def draw_shelf(rng: random.Random, paragraphs: int, judged: bool) -> Shelf:
    """About 225 records, and paragraphs: six sentences that must cite, two of them one work, and four that must not."""
    made = _Maker(rng, judged)
    pools = [[make() for _ in range(count)] for make, count in ((made.named, 35), (made.claim, 60), (made.dated, 30))]
    for pool in pools:
        rng.shuffle(pool)
    texts = []
    for number in range(paragraphs):
        citing = [pools[at].pop() for at in (0, 0, 1, 1, 2)]
        citing.append(made.again(citing[0]))
        # Of six paragraphs, each form is in one at least: one that a program spoils must not be left out by chance.
        sure = PLAIN[number::6]
        more = rng.sample([it for it in PLAIN if it not in sure], 4 - judged - len(sure))
        forms = [*sure, *more, *rng.sample(OBVIOUS, judged)]
        plain = [(made.plain(form), None) for form in forms]
        texts.append(rng.sample([*citing, *plain], 10))
    return Shelf(made.records, [[(text, key) for text, key in it] for it in texts])


class _Maker:
    """Makes records, and a sentence for each."""

    def __init__(self, rng: random.Random, judged: bool) -> None:
        self.rng, self.judged = rng, judged
        self.records: dict[str, Record] = {}
        self.others: dict[str, str] = {}
        self.claims = [(thing, effect) for thing in THINGS for effect in EFFECTS]
        rng.shuffle(self.claims)

    def word(self) -> str:
        return "".join(self.rng.choice("bdfgklmnprstvz") + self.rng.choice("aeiou") for _ in range(3)).capitalize()

    def record(self, title: str, snippet: str, year: int, authors: tuple[str, str] | None = None) -> Record:
        kind, place, venue = self.rng.choice(VENUES)
        first, second = authors or (self.word(), self.word())
        while (key := f"{first}{year}{title.split(maxsplit=1)[0].lower().strip(':')}") in self.records:
            year -= 1
        fields = {"title": title, "author": f"{first}, {self.word()} and {second}, {self.word()[0]}.", place: venue,
                  "year": str(year), "pages": f"{self.rng.randint(1, 400)}--{self.rng.randint(401, 800)}"}  # fmt: skip
        self.records[key] = Record(key, kind, fields, snippet)
        return self.records[key]

    def named(self) -> tuple[str, str | None]:
        """A work that introduces something, and two later ones about it, which no sentence means."""
        name, kind, thing = self.word() + self.word().lower()[:2], self.rng.choice(KINDS), self.rng.choice(THINGS)
        year = self.rng.randint(2012, 2019)
        origin = self.record(f"{name}: a new {kind} for {thing}", f"We introduce {name}, a {kind} for {thing}.", year)
        self.record(f"Revisiting {name} and other {kind}s", f"We study {name} again, with more {thing}.", year + 2)
        # Its key stands before that of the first in most searches for the name alone, where all three share one word.
        self.record(f"And how far does {name} go?", f"A survey of works that use the {name} {kind}.", year + 4)
        forms = (f"As a starting point we take the {name} {kind} — without changes.",
                 f"Most recent systems build upon {name}, and so do we.")  # fmt: skip
        if self.judged and self.rng.random() < 0.5:
            forms = (NAMED[0].format(name=name, kind=kind), NAMED[1].format(name=name))
        self.others |= dict(zip(forms, reversed(forms), strict=True))
        return self.rng.choice(forms), origin.key

    def again(self, cited: tuple[str, str | None]) -> tuple[str, str | None]:
        """Another sentence that must cite the work of a sentence with a name."""
        return self.others[cited[0]], cited[1]

    def claim(self) -> tuple[str, str | None]:
        thing, effect = self.claims.pop()
        verb, rest = effect.split(" ", 1)
        title = f"{thing[0].upper()}{thing[1:]} that {verb} {rest}"
        found = self.record(title, f"We find that {thing} {effect}.", self.rng.randint(2010, 2024))
        forms = ("It has been shown that {} {}.", "It is known from earlier work that {} {}.")
        form = self.rng.choice((*forms, *CLAIMED * self.judged))
        return form.format(thing, effect), found.key

    def dated(self) -> tuple[str, str | None]:
        """Two works of the same authors in different years."""
        authors, year, thing = (self.word(), self.word()), self.rng.randint(2010, 2018), self.rng.choice(THINGS)
        found = self.record(f"On the nature of {thing}", f"An analysis of {thing}.", year, authors)
        self.record(f"More on {self.rng.choice(THINGS)}", f"Later remarks on {thing}.", year + 3, authors)
        return f"We follow {authors[0]} and {authors[1]} ({found.fields['year']}) in their account.", found.key

    def plain(self, form: str) -> str:
        thing, kind = self.rng.choice(THINGS), self.rng.choice(KINDS)
        return form.format(n=self.rng.randint(2, 40), thing=thing, kind=kind, name=self.word())
