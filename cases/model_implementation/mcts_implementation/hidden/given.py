"""Which definitions of a given file are not as they were."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def altered(given: str, found: str, written: set[str]) -> list[str]:
    """Names of what `given` defines and `found` has in another form, but for those in `written`, as `Class.method`.

    Syntax trees are compared without docstrings: form, comments, imports and further definitions are free.
    """
    try:
        now = dict(_definitions(ast.parse(found)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ["the whole file, which is no Python that can be read"]
    before = dict(_definitions(ast.parse(given)))
    return [name for name, form in before.items() if name not in written and now.get(name) != form]


def _definitions(body: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, str]]:
    for statement in body.body:
        if isinstance(statement, ast.ClassDef):
            name = f"{prefix}{statement.name}"
            yield name, " ".join(map(ast.dump, [*statement.bases, *statement.keywords, *statement.decorator_list]))
            yield from _definitions(statement, f"{name}.")
        elif isinstance(statement, ast.FunctionDef):
            yield f"{prefix}{statement.name}", _form(statement)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                yield f"{prefix}{ast.unparse(target)}", ast.dump(statement)


def _form(function: ast.FunctionDef) -> str:
    if ast.get_docstring(function, clean=False) is not None:
        function.body = function.body[1:]
    return ast.dump(function)
