"""What an action is, and the errors by which it ends or fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from .entries import ACTION, INPUT, OBSERVATION

Arguments: TypeAlias = Mapping[str, str]


class FinalAnswer(Exception):
    """The work is handed in; the text is what the model says of it."""


class ActionFault(Exception):
    """Why an action could not be carried out, for the model to read."""


@dataclass(frozen=True)
class Action:
    name: str
    about: str
    arguments: Mapping[str, str]
    """Name -> what it means, in their order."""
    returns: str
    use: Callable[[Arguments], str]

    def usage(self) -> str:
        """The form in which it is asked for."""
        lines = [f'    "{name}": "[{about}]"' for name, about in self.arguments.items()]
        body = "{\n" + ",\n".join(lines) + "\n}" if lines else "{}"
        return f"{ACTION}: {self.name}\n{INPUT}: {body}\n{OBSERVATION}: [{self.returns}]"

    def describe(self) -> str:
        return f"- {self.name}: {self.about}\n```\n{self.usage()}\n```"


def whole_number(text: str, name: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise ActionFault(f"`{name}` must be a whole number, is {text[:40]!r}") from None
