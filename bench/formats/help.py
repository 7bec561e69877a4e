"""Help for an agent at work: who answers, the rules of a scripted one, and what a record says of it.

Trials with help are never ranked, and stand in tables as an entrant of their own.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from bench.base.model import Model

HELP_LOG = "help.jsonl"
"""Beside the record: each question with its answer and times."""
MOST_QUESTIONS = 20
"""Of one cell that are answered."""
LONGEST_TEXT = 4000
"""Characters of a question, and of an answer."""
HELPED = "(helped)"
"""Follows the models' names of an entrant that had help."""
By = Literal["person", "scripted"]
_RulesDigest = Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")]


class HelpOffer(Model):
    """Who answers the questions of a run's agents; part of its plan."""

    by: By
    rules: _RulesDigest = ""
    """Of the file of rules; empty for a person."""


class HelpGiven(HelpOffer):
    """What a record says of help: that it was offered, and how much was made of it."""

    questions: int = Field(0, ge=0, le=MOST_QUESTIONS)
    answered: int = Field(0, ge=0, le=MOST_QUESTIONS)


class HelpLine(Model):
    """One line of help.jsonl."""

    time: float
    """Unix seconds of the question."""
    event: Literal["question"]
    number: int = Field(ge=1, le=MOST_QUESTIONS)
    seconds: float
    """Since the agent phase began."""
    question: str = Field(max_length=LONGEST_TEXT)
    answer: str | None = Field(max_length=LONGEST_TEXT)
    """None: there was no answer."""
    waited_s: float


class HelpRule(Model):
    """An answer to the questions that a pattern is found in."""

    pattern: str = Field(min_length=1, max_length=500)
    """A text; `*` stands for anything in between. Letters of either case and any run of white space are the same."""
    answer: str = Field(min_length=1, max_length=LONGEST_TEXT)

    def matches(self, question: str) -> bool:
        """Whether the pattern is somewhere in the question; takes time in proportion to its length."""
        text, at = _plain(question), 0
        for part in filter(None, _plain(self.pattern).split("*")):
            at = text.find(part.strip(), at)
            if at < 0:
                return False
            at += len(part.strip())
        return True


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().casefold()


class HelpRules(Model):
    """The content of a file of rules for `--ask`."""

    schema_: Literal[1] = Field(1, alias="schema")
    rules: list[HelpRule] = Field([], max_length=200)
    """The first one that matches counts."""
    default: str = Field("", max_length=LONGEST_TEXT)
    """Where none matches; empty: no answer."""

    def answer(self, question: str) -> str | None:
        return next((rule.answer for rule in self.rules if rule.matches(question)), self.default) or None


def questions_in(content: bytes) -> list[HelpLine]:
    """The questions of a help.jsonl; raises `ValueError` for a line that is not one."""
    return [HelpLine.model_validate_json(line) for line in content.split(b"\n") if line]
