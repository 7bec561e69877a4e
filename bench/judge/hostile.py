"""A workspace that answers with nonsense: shows that no answer of an agent's can break a check.

A broken check leaves a cell without a score, so an agent that could break one could hide its failures.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.judge.deadline import Timed
from bench.judge.ran import Ran
from bench.judge.scene import Scene
from bench.judge.subject import SubjectError
from bench.judge.workspace import Workspace


def hostile_values() -> dict[str, Any]:
    """Values that an agent's code or files may hold where something else is expected, by name."""
    import numpy

    return {
        "none": None,
        "text": "x",
        "empty_text": "",
        "number": 1.5,
        "huge_integer": 10**400,
        "nan": float("nan"),
        "infinity": float("inf"),
        "negative": -1,
        "true": True,
        "empty_list": [],
        "list_of_text": ["a"] * 20,
        "list_of_nan": [float("nan")] * 20,
        "nested": [[1.0], [2.0, 3.0]],
        "empty_object": {},
        "object": {"a": None},
        "array": numpy.zeros((2, 3)),
        "array_of_nan": numpy.full((4,), numpy.nan),
        "empty_array": numpy.zeros((0,)),
        "bytes": b"\x00\xff",
    }


def hostile_workspaces(scene: Scene) -> Iterator[tuple[str, Workspace]]:
    """One workspace a value, given bare and as every member that the case's checks ask for by name."""
    names = _names_asked_for(scene.check)
    drawn: dict[Any, Any] = {}
    for kind, value in hostile_values().items():
        yield kind, HostileWorkspace(scene, value, drawn)
        yield f"members: {kind}", HostileWorkspace(scene, dict.fromkeys(names, value), drawn)


def _names_asked_for(check: Path) -> list[str]:
    """String constants of check.py: among them are all keys and columns that it looks up."""
    tree = ast.parse(check.read_text(encoding="utf-8"))
    found = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return sorted(text for text in found if 0 < len(text) <= 60)


class HostileWorkspace(Workspace):
    """Every call, document and table of the agent's is the same hostile value; every file exists."""

    def __init__(self, scene: Scene, value: object, drawn: dict[Any, Any]) -> None:
        super().__init__(scene)
        self._value = value
        # All of them have one seed, so what is drawn from it is the same.
        self.drawn = drawn

    def call(self, target: str, /, *args: object, **kwargs: object) -> Any:
        return self._value

    def drive(self, target: str, /, *args: object, **kwargs: object) -> Any:
        return self._value

    def read_apart(self, target: str, folder: object, paths: object, **options: object) -> Any:
        return self._value

    def probed(self, driver: object, calls: Sequence[object], name: str, source: bytes | None) -> Any:
        # The form of an answer, so that the value gets as far as what compares it.
        return [{"value": self._value, "inputs": self._value}] * len(calls)

    def _timed(self, target: str, arguments: tuple[Any, ...]) -> Timed:
        return Timed(self._value, 0.2, trusted=True)

    def _timed_reference(self, target: str, arguments: tuple[Any, ...]) -> Timed:
        return Timed(self._value, 0.4, trusted=True)

    def run(self, argv: object, **options: object) -> Ran:
        return HostileRan(self)

    def journal(self, service: str, during: str = "agent") -> list[dict[str, Any]]:
        # What a service writes beside its own events: of a call that it fails to answer.
        return [{"time": 0.0, "event": "service_error", "error": "x"}]

    def exists(self, path: str) -> bool:
        return True

    def json(self, path: str, max_mb: float = 5) -> Any:
        members = self._value.values() if isinstance(self._value, dict) else [self._value]
        for value in members:
            if isinstance(value, bytes) or hasattr(value, "shape") or value != value or value == float("inf"):
                raise SubjectError(f"{path} is not valid JSON")
        return self._value

    def text(self, path: str, max_mb: float = 5) -> str:
        return str(self._value)[:1000] if not isinstance(self._value, int) else "9" * 400

    def program(self, path: str, max_mb: float = 5) -> str:
        return self.text(path, max_mb)

    def bytes(self, path: str, max_mb: float = 100) -> bytes:
        return self.text(path).encode()

    def jsonl(self, path: str, max_mb: float = 20) -> list[Any]:
        return [self.json(path, max_mb)] * 2

    def csv(self, path: str, max_mb: float = 20) -> list[dict[str, str]]:
        if not isinstance(self._value, dict):
            return []
        return [
            {name: str(value)[:50] if not isinstance(value, int) else "9" * 50 for name, value in self._value.items()}
        ] * 2

    def npz(self, path: str, max_mb: float = 200) -> dict[str, Any]:
        if not isinstance(self._value, dict):
            return {}
        return {name: value for name, value in self._value.items() if hasattr(value, "shape")}

    def npy(self, path: str, max_mb: float = 200) -> Any:
        if not hasattr(self._value, "shape"):
            raise SubjectError(f"{path} is not a readable npy file")
        return self._value

    def safetensors(self, path: str, max_mb: float = 500) -> dict[str, Any]:
        return self.npz(path, max_mb)


_READERS = ("exists", "json", "jsonl", "text", "program", "bytes", "csv", "npz", "npy", "safetensors")


class HostileRan(Ran):
    """A command that ended well and left nonsense."""

    def __init__(self, source: HostileWorkspace) -> None:
        super().__init__(source.root, 0, source.text("stdout"), "", "hostile", "")
        for name in _READERS:
            setattr(self, name, getattr(source, name))
