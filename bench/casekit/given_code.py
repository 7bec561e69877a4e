"""Which definitions of a given file are not as they were, for tasks that say what of it is to be written."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_STAR = "*"
_CLASS = "class "
_IMPORT = "Import"


def altered(given: str, found: str, written: set[str]) -> list[str]:
    """Names of what `given` defines and `found` has in another form, but for those in `written`, as `Class.method`.

    given, found: Python sources. Syntax trees are compared without docstrings: form, comments, imports and further
    definitions are free. What any statement binds or deletes further down, under a condition too, counts as it is last.
    Neither source is executed, and what a statement changes by a call, such as `setattr`, or by another name of the
    same object is not seen.
    """
    try:
        now = _last_forms(ast.parse(found))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ["the whole file, which is no Python that can be read"]
    before = {name: form for name, form in _last_forms(ast.parse(given)).items() if not form.startswith(_IMPORT)}
    return [name for name, form in before.items() if name not in written and now.get(name) != form]


def _last_forms(module: ast.Module) -> dict[str, str]:
    """The form that each name has at the end."""
    forms: dict[str, str] = {}
    for name, form in _definitions(module.body):
        if form.startswith(_CLASS):
            # Of an earlier class of this name nothing is left.
            forms = {known: it for known, it in forms.items() if not known.startswith(f"{name}.")}
        if name == _STAR:
            # Nothing here tells what it brings: it may be all that is there by now.
            forms = dict.fromkeys(forms, form)
        forms[name] = form
    return forms


def _definitions(body: Iterable[ast.stmt], prefix: str = "") -> Iterator[tuple[str, str]]:
    for statement in body:
        form = " ".join(map(_shallow, _own(statement)))
        for name in (bound for node in _own(statement) for bound in _bound(node)):
            yield (name if name == _STAR else f"{prefix}{name}"), form
        if isinstance(statement, ast.ClassDef):
            name = f"{prefix}{statement.name}"
            parts = [*statement.bases, *statement.keywords, *statement.decorator_list]
            yield name, _CLASS + " ".join(map(ast.dump, parts))
            yield from _definitions(statement.body, f"{name}.")
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{statement.name}", _form(statement)
        else:
            yield from _definitions(_inside(statement), prefix)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and its parts, without the statements in it and without what only a part of it can name."""
    yield node
    for child in ast.iter_child_nodes(node):
        local = isinstance(node, ast.comprehension) and child is node.target
        if not local and not isinstance(child, ast.stmt | ast.Lambda):
            yield from _own(child)


def _inside(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements directly in all branches of a statement, in order."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        else:
            yield from _inside(child)


def _bound(node: ast.AST) -> Iterator[str]:
    """What this part of a statement binds or deletes: by assignment, `for`, `with`, `except`, `case`, `import`."""
    match node:
        case ast.Name() | ast.Attribute() | ast.Subscript() if not isinstance(node.ctx, ast.Load):
            yield ast.unparse(node)
        case ast.alias():
            yield node.asname or node.name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name


def _shallow(node: ast.AST) -> str:
    values = [(name, it) for name, it in ast.iter_fields(node) if not isinstance(it, ast.AST | list)]
    return f"{type(node).__name__}{values}"


def _form(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    if ast.get_docstring(function, clean=False) is not None:
        function.body = function.body[1:]
    return ast.dump(function)
