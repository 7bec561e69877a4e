"""The six labelled parts of an answer, and the arguments in the last of them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

REFLECTION, PLAN, FACTS = "Reflection", "Research Plan and Status", "Fact Check"
THOUGHT, ACTION, INPUT = "Thought", "Action", "Action Input"
LABELS = (REFLECTION, PLAN, FACTS, THOUGHT, ACTION, INPUT)
OBSERVATION = "Observation"

_FENCE_LINE = re.compile(r"^[ \t]*```\w*[ \t]*$", re.M)
_LONE_BACKSLASH = re.compile(r'\\(?!["\\/bfnrtu])')
_DECODER = json.JSONDecoder(strict=False)


class BadAnswer(Exception):
    """What is wrong with an answer, for the model to read."""


@dataclass(frozen=True)
class Entries:
    """An answer taken apart."""

    parts: dict[str, str]

    @property
    def action(self) -> str:
        return self.parts[ACTION]

    @property
    def plan(self) -> str:
        """The plan as it is stored: without fences and without the marks of what is new."""
        return _FENCE_LINE.sub("", self.parts[PLAN]).replace("**", "").strip()

    def text(self) -> str:
        """The answer in the form that was asked for."""
        kept = {**self.parts, PLAN: self.plan}
        return "\n".join(f"{label}: {kept[label]}" for label in LABELS)


def read_entries(text: str, actions: Sequence[str]) -> Entries:
    """The parts in their order; a label counts at the start of a line, at its first place after the one before."""
    text = re.split(rf"^[ \t*#]*{OBSERVATION}[ \t*]*:", text, maxsplit=1, flags=re.M)[0]
    starts: list[tuple[int, int]] = []
    place = 0
    for label in LABELS:
        found = re.compile(rf"^[ \t*#]*{re.escape(label)}[ \t*]*:[ \t]*(?:\*\*)?", re.M | re.I).search(text, place)
        if found is None:
            missing = [name for name in LABELS if not re.search(rf"^[ \t*#]*{name}[ \t*]*:", text, re.M | re.I)]
            fault = f"these entries are missing: {', '.join(missing)}" if missing else f"`{label}` is out of order"
            raise BadAnswer(fault)
        starts.append((found.start(), found.end()))
        place = found.end()
    ends = [start for start, _ in starts[1:]] + [len(text)]
    parts = {label: text[begin:end].strip() for label, (_, begin), end in zip(LABELS, starts, ends, strict=True)}
    name = parts[ACTION].splitlines()[0].strip(" \t`*\"'[].") if parts[ACTION] else ""
    known = {action.lower(): action for action in actions}
    if name.lower() not in known:
        raise BadAnswer(f"`{ACTION}` must be exactly one of: {', '.join(actions)}")
    return Entries({**parts, ACTION: known[name.lower()]})


def read_arguments(text: str, names: Sequence[str]) -> dict[str, str]:
    """The arguments named `names` out of JSON, or of what was meant to be JSON."""
    bare = _FENCE_LINE.sub("", text).strip()
    found = _first_object(bare)
    if found is None:
        found = _first_object(_LONE_BACKSLASH.sub(r"\\\\", bare))
    if found is None:
        found = _by_names(bare, names)
    if found is None:
        raise BadAnswer(f"`{INPUT}` is not valid JSON")
    if set(found) != set(names):
        raise BadAnswer(f"`{INPUT}` must have exactly these keys: {', '.join(names) or 'none'}")
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in found.items()}


def _first_object(text: str) -> dict[str, object] | None:
    start = text.find("{")
    if start < 0:
        return None
    try:
        value, _ = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _by_names(text: str, names: Sequence[str]) -> dict[str, object] | None:
    """Values between the names in their order, for texts whose inner quotes were not escaped."""
    if not names:
        return None
    between = r'"\s*,\s*'.join(rf'"{re.escape(name)}"\s*:\s*"(.*?)' for name in names)
    found = re.search(rf'\{{\s*{between}"\s*\}}\s*\Z', text, re.S)
    return dict(zip(names, (_unescaped(value) for value in found.groups()), strict=True)) if found else None


def _unescaped(value: str) -> str:
    return value.replace('\\"', '"').replace("\\n", "\n").replace("\\t", "\t")
