"""By which names the models of a cell may be asked for: aliases, real names, and names that agent.yaml maps to a role.

Whatever is asked for, the model of the role answers: a name decides nothing but the role.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from bench.formats.seeds import REPLAY_PREFIX

ALIAS_PREFIX = "bench-"
_DATE = re.compile(
    r"[-@](?:20\d{2}-?(?:0[1-9]|1[0-2])-?(?:[0-2]\d|3[01])|(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])|\d{2}(?:0[1-9]|1[0-2])"
    r"|00\d|latest|(?:preview-|exp-)?(?:0[1-9]|1[0-2])-(?:20)?\d{2})"
)
"""What providers put behind a name for one of its snapshots: `-20250929`, `@20250929`, `-2024-08-06`, `-0613`,
`-2411`, `-001`, `-preview-05-06`, `-latest`."""
_MOST_ASKED = 16
OTHERS = "others"
"""Stands in a record for the names beyond the sixteenth."""


def alias(role: str) -> str:
    """The neutral name of the model of `role`."""
    return f"{ALIAS_PREFIX}{role}"


def real_name(known: str) -> str:
    """The name by which the provider knows `known` (`provider/name`); nothing for a model that is only replayed."""
    return "" if known.startswith(REPLAY_PREFIX) else known.partition("/")[2] or known


class ModelNames:
    """The names that lead to the roles of one cell."""

    def __init__(self, models: Mapping[str, str], helpers: Mapping[str, str]) -> None:
        """`models`: role -> model, as `provider/name`. `helpers`: further names -> role."""
        self._real = {role: real_name(model) for role, model in models.items()}
        self._known = {role: list(_spellings(model)) for role, model in models.items()}
        self._helpers = {name: role for name, role in helpers.items() if role in models}

    def role(self, asked: str, roles: Sequence[str]) -> str | None:
        """Which of `roles` is meant by `asked`; the first one where several have this model. None: no such model."""
        named = asked.removeprefix(ALIAS_PREFIX)
        if asked.startswith(ALIAS_PREFIX) and named in self._real:
            return named if named in roles else None
        # A name that agent.yaml maps is mapped, even where a role has that very model.
        for same in (str.__eq__, _same_but_for_the_date):
            for name, role in self._helpers.items():
                if same(asked, name) and role in roles:
                    return role
            for role in roles:
                if any(same(asked, name) for name in self._known.get(role, [])):
                    return role
        return None

    def listed(self, roles: Sequence[str]) -> list[str]:
        """What a list of models shows to a client that may ask for `roles`: all aliases, then the real names."""
        names = [*(alias(role) for role in roles), *(self._real.get(role, "") for role in roles)]
        return list(dict.fromkeys(filter(None, names)))


class AskedNames:
    """How often each name was asked for, in a bounded number of entries: an agent may invent dates without end."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, name: str) -> None:
        """Count one call that asked for `name`."""
        known = name in self.counts or len(self.counts) < _MOST_ASKED
        self.counts[name if known else OTHERS] += 1


def _spellings(model: str) -> Iterator[str]:
    """`model` as clients spell it: whole, without the provider, and the last part of a longer path."""
    name = real_name(model)
    if name:
        yield from dict.fromkeys((model, name, name.rpartition("/")[2]))


def _same_but_for_the_date(asked: str, name: str) -> bool:
    """Whether one of the two is a dated snapshot of the other."""
    longer, shorter = (asked, name) if len(asked) > len(name) else (name, asked)
    return bool(shorter) and longer.startswith(shorter) and bool(_DATE.fullmatch(longer[len(shorter) :]))
