"""Which definitions of a given file are not as they were, for tasks that say what of it is to be written."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_STAR = "*"
_CLASS = "class "
_IMPORT = "Import"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def altered(given: str, found: str, written: set[str]) -> list[str]:
    """Names of what `given` defines and `found` has in another form, but for those in `written`, as `Class.method`.

    given, found: Python sources. Syntax trees are compared without docstrings: form, comments, imports and further
    definitions are free. All forms count that any statement gives a name or takes from it, under a condition too: which
    of them will run is not known here. Neither source is executed, and what a statement changes by a call, such as
    `setattr`, or by another name of the same object is not seen.
    """
    try:
        module = ast.parse(found)
        now, inside = _forms(module), _bound_inside(module)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ["the whole file, which is no Python that can be read"]
    first = ast.parse(given)
    before, inside = _forms(first), inside - _bound_inside(first)
    fixed = [name for name, forms in before.items() if name not in written and not forms[-1].startswith(_IMPORT)]
    return [name for name in fixed if now.get(name) != before[name] or name in inside]


def _forms(module: ast.Module) -> dict[str, list[str]]:
    """The forms that each name gets, in order."""
    forms: dict[str, list[str]] = {}
    for name, form in _definitions(module.body):
        # Nothing here tells what a star brings: it may be all that is there by now.
        for known in [*forms] if name == _STAR else [name]:
            forms.setdefault(known, []).append(form)
    return forms


def _bound_inside(module: ast.Module) -> set[str]:
    """What functions and classes bind outside of themselves: by `global`, or as an attribute of what has a name."""
    scopes = (node for node in ast.walk(module) if isinstance(node, _SCOPES))
    nodes = [node for scope in scopes for node in ast.walk(scope)]
    declared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    stored = (node for node in nodes if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load))
    return declared | {ast.unparse(node) for node in stored}


def _definitions(body: Iterable[ast.stmt], prefix: str = "") -> Iterator[tuple[str, str]]:
    for statement in body:
        form = " ".join(map(_shallow, _own(statement)))
        for name in (bound for node in _own(statement) for bound in _bound(node)):
            # A class holds plain names alone: an attribute or an item belongs to what it is one of.
            yield (f"{prefix}{name}" if name.isidentifier() else name), form
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
            yield node.asname or node.name.partition(".")[0]
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
