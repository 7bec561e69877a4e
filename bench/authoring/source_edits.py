"""Python source as bytes with its syntax tree, and edits of it by the positions of nodes: all other text stays."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from types import CodeType
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef
_PRIMARY = (
    ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript, ast.List, ast.Dict, ast.Set, ast.ListComp,
    ast.DictComp, ast.SetComp, ast.JoinedStr,
)  # fmt: skip
"""Expressions that bind tighter than any operator, so that they never need parentheses."""


class Edit(NamedTuple):
    """A piece of the text, in bytes, and what takes its place."""

    start: int
    end: int
    text: str


class Source:
    """One Python file. Raises `SyntaxError` or `ValueError` for content that is not UTF-8 source."""

    def __init__(self, content: bytes) -> None:
        content.decode("utf-8")
        # Where positions of the parser are not those of the bytes, no edit would be where it should.
        if content.startswith(b"\xef\xbb\xbf") or b"\r" in content.replace(b"\r\n", b""):
            raise ValueError("a byte order mark, or lines that end with CR alone")
        self.content = content
        self.tree = ast.parse(content)
        self._lines = [0]
        for line in content.split(b"\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The parent of every node but the module."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def modules(self) -> frozenset[str]:
        """Names that an import binds anywhere in the file."""
        imports = [node for node in ast.walk(self.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        return frozenset((it.asname or it.name).partition(".")[0] for node in imports for it in node.names)

    def start(self, node: Positioned) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def end(self, node: Positioned) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: Positioned) -> str:
        return self.between(self.start(node), self.end(node))

    def between(self, start: int, end: int) -> str:
        return self.content[start:end].decode("utf-8")

    def operand(self, node: ast.expr) -> str:
        """The text of an expression, in parentheses unless it can stand anywhere without."""
        text = self.text(node)
        return text if isinstance(node, _PRIMARY) else f"({text})"

    def replace(self, node: Positioned, text: str) -> Edit:
        return Edit(self.start(node), self.end(node), text)

    def swap(self, one: Positioned, other: Positioned) -> tuple[Edit, Edit]:
        return self.replace(one, self.text(other)), self.replace(other, self.text(one))

    def within(self, start: int, end: int, old: str, new: str) -> Iterator[Edit]:
        """The edit that replaces the first `old` between two positions; none where there is none."""
        found = self.content.find(old.encode(), start, end)
        if found >= 0:
            yield Edit(found, found + len(old.encode()), new)

    def new_line(self, node: ast.stmt) -> str | None:
        """A line break with the indentation of a statement; None where the statement does not begin its line."""
        line = self._lines[node.lineno - 1]
        before = self.content[line : self.start(node)]
        if before.strip():
            return None
        ends = "\r\n" if b"\r\n" in self.content else "\n"
        return ends + before.decode("utf-8")

    def edited(self, edits: Sequence[Edit]) -> bytes:
        """The content with edits that do not overlap."""
        content = self.content
        for start, end, text in sorted(edits, reverse=True):
            content = content[:start] + text.encode() + content[end:]
        return content

    def function_of(self, node: ast.AST) -> Function | None:
        """The innermost function around a node; None at the top of the module and in the body of a class."""
        found: ast.AST | None = node
        while found is not None and not isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
            found = self.parents.get(found)
        return found

    def place_of(self, node: ast.AST) -> str:
        """The dotted name of the function or class around a node; empty at the top of the module."""
        names: list[str] = []
        found: ast.AST | None = node
        while found is not None:
            if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.append(found.name)
            found = self.parents.get(found)
        return ".".join(reversed(names))


Positioned = ast.expr | ast.stmt | ast.keyword | ast.arg | ast.ExceptHandler


def compiled(content: bytes) -> object | None:
    """What can be compared of the code that a file compiles to, positions left out; None where it does not compile."""
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _facts(compile(content, "mutant", "exec", dont_inherit=True))
    except (SyntaxError, ValueError):
        return None


def _facts(code: CodeType) -> object:
    # 1, 1.0 and True are equal, and 0.0 and -0.0, too; as text they are not.
    constants = tuple(_facts(it) if isinstance(it, CodeType) else repr(it) for it in code.co_consts)
    return (
        code.co_name, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_code,
        constants, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_exceptiontable,
    )  # fmt: skip
