"""For authors of services.py: GraphQL as far as clients write it. Standard library only.

An operation with variables, aliases, arguments and fragments; no schema, directives or subscriptions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from bench.casekit.json_requests import Json, RefusedError

_TOKEN = re.compile(r'\s*(?:#[^\n]*\n\s*)*("(?:[^"\\\n]|\\.)*"|\.\.\.|[$!(){}\[\]:=]|-?\d[\d.eE+-]*|\w+),*')


@dataclass
class Field:
    """A field of a selection: its key in the answer, its arguments and what is selected below it."""

    name: str
    key: str
    args: Json
    below: list[Field | str] | None  # a string names a fragment


class Query:
    """A parsed document that picks what it asks for out of nested dictionaries and functions of the arguments.

    Raises `RefusedError`, or `RecursionError` for what is nested too deeply, when it is made and when it answers.
    """

    def __init__(self, text: str, variables: Json) -> None:
        self.tokens = [match.group(1) for match in _TOKEN.finditer(text)] + [""]
        self.at, self.variables = 0, dict(variables)
        self.operation: list[Field | str] = []
        self.fragments: dict[str, list[Field | str]] = {}
        while self._peek():
            self._definition()

    def answer(self, root: Json) -> Json:
        """The part of `root` that the operation asks for."""
        if not self.operation:
            raise RefusedError("the query holds no operation")
        return self._select(self.operation, root)

    def _select(self, fields: list[Field | str], source: object) -> Json:
        if not isinstance(source, dict):
            raise RefusedError("a plain value has no fields to select")
        answer: Json = {}
        for item in self._flat(fields, set()):
            if item.name not in source:
                raise RefusedError(f"Cannot query field '{item.name}'")
            value = source[item.name]
            value = value(item.args) if callable(value) else value
            if item.below is not None and isinstance(value, list):
                value = [self._select(item.below, one) for one in value]
            elif item.below is not None and value is not None:
                value = self._select(item.below, value)
            answer[item.key] = value
        return answer

    def _flat(self, fields: list[Field | str], seen: set[str]) -> Iterator[Field]:
        """The fields with every fragment laid open, each once: so none can contain itself for ever."""
        for item in fields:
            if isinstance(item, Field):
                yield item
            elif item not in self.fragments:
                raise RefusedError(f'Unknown fragment "{item}"')
            elif item not in seen:
                seen.add(item)
                yield from self._flat(self.fragments[item], seen)

    def _peek(self) -> str:
        return self.tokens[self.at]

    def _next(self, wanted: str = "") -> str:
        token = self._peek()
        if not token or (wanted and token != wanted):
            raise RefusedError(f"Syntax Error: expected {wanted or 'more'}, found {token or 'the end'}")
        self.at += 1
        return token

    def _skip(self, token: str) -> bool:
        found = self._peek() == token
        self.at += found
        return found

    def _definition(self) -> None:
        if self._skip("fragment"):
            name = self._next()
            self._next("on")
            self._next()
            self.fragments[name] = self._selection()
            return
        while self._peek() not in ("(", "{"):  # the kind and the name, both of which may be missing
            self._next()
        if self._skip("("):
            self._declarations()
        self.operation = self._selection()

    def _declarations(self) -> None:
        """Reads `$name: Type = default` up to the bracket; only the defaults matter here."""
        while not self._skip(")"):
            self._next("$")
            name = self._next()
            self._next(":")
            while self._peek() not in ("$", ")", "="):
                self._next()
            if self._skip("="):
                self.variables.setdefault(name, self._value())

    def _selection(self) -> list[Field | str]:
        self._next("{")
        fields: list[Field | str] = []
        while not self._skip("}"):
            fields.append(self._next() if self._skip("...") else self._field())
        return fields

    def _field(self) -> Field:
        key = name = self._next()
        if self._skip(":"):
            name = self._next()
        args = self._pairs(")") if self._skip("(") else {}
        return Field(name, key, args, self._selection() if self._peek() == "{" else None)

    def _pairs(self, end: str) -> Json:
        pairs: Json = {}
        while not self._skip(end):
            name = self._next()
            self._next(":")
            pairs[name] = self._value()
        return pairs

    def _value(self) -> object:
        token = self._next()
        if token == "$":
            return self.variables.get(self._next())
        if token == "{":
            return self._pairs("}")
        if token == "[":
            values = []
            while not self._skip("]"):
                values.append(self._value())
            return values
        try:
            value: object = json.loads(token)  # strings, numbers, true, false and null are written as in JSON
        except ValueError:
            return token  # an enum value
        return value
