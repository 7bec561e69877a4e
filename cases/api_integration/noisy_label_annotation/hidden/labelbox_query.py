"""The query language as far as the clients of the labelling service write it: one operation with variables."""

import json
import re
from collections.abc import Mapping
from typing import Any

TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[$!(){}\[\]:=]|-?\d[\d.eE+-]*|\w+')


class QueryError(Exception):
    """The request cannot be answered; the message is for the asker."""


class Query:
    """Picks what an operation asks for out of dictionaries and functions of the arguments."""

    def __init__(self, text: str, variables: Mapping[str, Any]) -> None:
        self._tokens, self._at, self._variables = [*TOKEN.findall(text), ""], 0, variables
        while self._tokens[self._at] not in ("(", "{", ""):
            self._at += 1
        if self._skip("("):
            depth = 1
            while depth:
                depth += {"(": 1, ")": -1}.get(self._next(), 0)
        self._fields = self._selection()

    def answer(self, root: Mapping[str, Any]) -> dict[str, Any]:
        """A name that the root lacks is an error; below it, fields that are not kept are null."""
        for name, _, _ in self._fields.values():
            if name not in root:
                raise QueryError(f"Cannot query field {name}")
        return self._pick(self._fields, root)

    def _pick(self, fields: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        for key, (name, arguments, below) in fields.items():
            value = source.get(name)
            value = value(arguments) if callable(value) else value
            if below and isinstance(value, list):
                value = [self._pick(below, one) for one in value]
            found[key] = self._pick(below, value) if below and isinstance(value, dict) else value
        return found

    def _next(self, wanted: str = "") -> str:
        token = self._tokens[self._at]
        if not token or (wanted and token != wanted):
            raise QueryError(f"Syntax Error: expected {wanted or 'more'}, found {token[:50] or 'the end'}")
        self._at += 1
        return token

    def _skip(self, token: str) -> bool:
        found = self._tokens[self._at] == token
        self._at += found
        return found

    def _selection(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        self._next("{")
        while not self._skip("}"):
            key = name = self._next()
            if self._skip(":"):
                name = self._next()
            arguments = self._pairs(")") if self._skip("(") else {}
            fields[key] = (name, arguments, self._selection() if self._tokens[self._at] == "{" else {})
        return fields

    def _pairs(self, end: str) -> dict[str, Any]:
        pairs = {}
        while not self._skip(end):
            name = self._next()
            self._next(":")
            pairs[name] = self._value()
        return pairs

    def _value(self) -> Any:
        token = self._next()
        if token == "$":
            return self._variables.get(self._next())
        if token == "{":
            return self._pairs("}")
        if token == "[":
            values = []
            while not self._skip("]"):
                values.append(self._value())
            return values
        try:
            return json.loads(token)
        except ValueError:
            return token  # the name of an enum's value
