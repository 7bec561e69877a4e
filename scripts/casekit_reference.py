"""Writes docs/casekit.md from docstrings: `python -m scripts.casekit_reference docs/casekit.md`, or `make docs`."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from bench.base.files import write_atomic

ROOT = Path(__file__).resolve().parents[1]
_HEAD = """# The case kit

<!-- Written by `make docs` from the docstrings. Change these, then run it again. -->

What the authors of cases import: `bench.casekit` in `data.py`, `services.py` and `check.py`, and `bench.judge` in
`check.py`. How they are used is told in [adding a case](adding-a-case.md); this page has every name, its signature,
what it takes and gives, in which units, and which errors it raises. An `AssertionError` is a failed check: the agent's
fault. A `ValueError` is an error of the case.

Arrays are those of NumPy. A `Generator` is `numpy.random.default_rng(seed)` with the 128 bits of
`bench.casekit.data.stream`, or `ws.numpy_rng(purpose)` in a check. Equal generators paint equal bytes."""
MODULES = (
    "casekit/data", "casekit/pictures", "casekit/picture_files", "casekit/tables", "casekit/sentences",
    "casekit/series", "casekit/graphs", "casekit/marks", "casekit/metrics", "casekit/programs", "casekit/texts",
    "casekit/labels_counted", "casekit/pictures_met", "casekit/membership", "casekit/tensors", "casekit/given_code",
    "casekit/services", "casekit/public_scores", "casekit/language_model", "casekit/model_hub", "casekit/tracker",
    "casekit/tracked_run", "casekit/graphql", "casekit/json_requests", "casekit/assets", "casekit/remains",
    "judge/checks", "judge/values", "judge/compare", "judge/submissions", "judge/readers", "judge/claims",
    "judge/entries", "judge/probes", "judge/promised", "judge/public_scores",
)  # fmt: skip
_INTERNAL = {"main", "shown", "CheckFunction", "Check"}
_FACE = "judge"


def page() -> str:
    """The whole page, the same on every machine."""
    return "\n\n".join([_HEAD, *map(_section, MODULES)]) + "\n"


def _section(module: str) -> str:
    tree = ast.parse((ROOT / "bench" / f"{module}.py").read_text(encoding="utf-8"))
    room, _, name = module.partition("/")
    offered = _offered() if room == _FACE else None
    source = f"bench.{room}" if offered is not None else f"bench.{room}.{name}"
    title = f"## {name.replace('_', ' ').capitalize()}\n\nFrom `{source}`. {_plain(ast.get_docstring(tree) or '')}"
    parts = [
        _entry(node)
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and node.name not in _INTERNAL
        and (offered is None or node.name in offered)
    ]
    return "\n\n".join([title, *parts])


def _offered() -> set[str]:
    """Names of the judge's face."""
    tree = ast.parse((ROOT / "bench" / _FACE / "__init__.py").read_text(encoding="utf-8"))
    return {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}


def _entry(node: ast.FunctionDef | ast.ClassDef) -> str:
    text = _plain(ast.get_docstring(node) or "")
    if isinstance(node, ast.FunctionDef):
        return f"### `{node.name}`\n\n```python\n{_signature(node)}\n```\n\n{text}"
    fields = [_field(node.body, place) for place, it in enumerate(node.body) if isinstance(it, ast.AnnAssign)]
    methods = [it for it in node.body if isinstance(it, ast.FunctionDef) and not it.name.startswith("_")]
    rows = [*fields, *(f"- `{_signature(it)}`: {_plain(ast.get_docstring(it) or '')}" for it in methods)]
    return "\n\n".join([f"### `{node.name}`", text, *(["\n".join(rows)] if rows else [])])


def _field(body: list[ast.stmt], place: int) -> str:
    """An attribute with the text below it."""
    statement = body[place]
    assert isinstance(statement, ast.AnnAssign)
    after = body[place + 1] if place + 1 < len(body) else None
    told = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    text = f": {_plain(str(after.value.value))}" if told else ""  # type: ignore[union-attr]
    return f"- `{ast.unparse(statement)}`{text}"


def _signature(node: ast.FunctionDef) -> str:
    """Name, parameters with types and defaults, result; one line, or a line a parameter where that is too long."""
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    arguments = ast.unparse(node.args).removeprefix("self, ").removeprefix("self")
    line = f"{node.name}({arguments}){result}"
    if len(line) <= 110:
        return line
    # Commas inside of brackets belong to a type or a default.
    depth, pieces = 0, [""]
    for letter in arguments:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            pieces.append("")
        else:
            pieces[-1] += letter
    inner = "".join(f"    {piece.strip()},\n" for piece in pieces)
    return f"{node.name}(\n{inner}){result}"


def _plain(text: str) -> str:
    """Paragraphs of a docstring, each on one line."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")).replace("*args", "\\*args")


if __name__ == "__main__":
    write_atomic(Path(sys.argv[1]), page().encode())
