"""Whether what task.md names is judged: its code spans and commands, and the probes of check.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.base.errors import UserError
from bench.formats.case import Case
from bench.formats.case_parts import Promise
from bench.formats.verdict import check_functions, declared_checks

_FENCED = re.compile(r"^(```+|~~~+)[^\n]*\n(.*?)^\1", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)((?: {4}[^\n]*\n+)+)")
_INLINE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_PROGRAMS = frozenset({"bash", "make", "pip", "pytest", "python", "python3", "sh", "torchrun", "uv"})
_CALLABLE = re.compile(r"([A-Za-z_][\w.]*)\(.*\)", re.DOTALL)


@dataclass(frozen=True)
class Span:
    """A code span of task.md, with its place."""

    text: str
    start: int
    end: int

    @property
    def is_command(self) -> bool:
        """Whether it is a command line: a program and at least one argument."""
        first, *rest = self.text.split()
        return bool(rest) and (first in _PROGRAMS or first.startswith("./"))

    @property
    def called(self) -> str:
        """The last name before the parenthesis of `name(...)`; empty for any other span."""
        found = _CALLABLE.fullmatch(self.text)
        return found[1].rpartition(".")[2] if found else ""


def code_spans(task: str) -> list[Span]:
    """Inline spans, and every line of fenced and indented blocks."""
    spans: list[Span] = []
    for pattern, group in ((_FENCED, 2), (_INDENTED, 1)):
        for block in pattern.finditer(task):
            for line in re.finditer(r"\S[^\n]*", block[group]):
                spans.append(_span(line[0].removeprefix("$ "), block.start(group) + line.start(), line[0]))
            task = task[: block.start()] + re.sub(r"[^\n]", " ", block[0]) + task[block.end() :]
    spans += [_span(found[2], found.start(2), found[2]) for found in _INLINE.finditer(task)]
    return sorted((span for span in spans if span.text), key=lambda span: span.start)


def _span(text: str, start: int, written: str) -> Span:
    return Span(" ".join(text.split()), start, start + len(written.rstrip()))


def promise_faults(case: Case) -> Iterator[str]:
    """What is named in task.md and not judged, and what is judged and not named; each one line with its remedy.

    A case without promises has declared nothing, and only its probes are looked at.
    """
    try:
        known = {check.id for check in declared_checks(case)}
    except UserError:
        return
    code = _Code(case)
    promises = case.spec.promises
    backed = [_plain(promise.quote) for promise in promises if promise.checks]
    for line, what, words in code.uses:
        if words is None:
            yield f"check.py: line {line}: {what} needs its words as plain strings; lint compares them with task.md"
        elif not any(_plain(words) in quote for quote in backed):
            yield f"check.py: line {line}: {what} {words!r} has no promise; quote task.md in case.yaml, or drop it"
    if promises:
        yield from _quotes(case, known)
        yield from _spans(case, code)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _quotes(case: Case, known: set[str]) -> Iterator[str]:
    task = case.task.read_text(encoding="utf-8")
    for promise in case.spec.promises:
        if not _places(task, promise.quote):
            yield f"case.yaml: promise {promise.quote[:60]!r} is not in task.md; quote it word for word"
        for check in promise.checks:
            if check not in known:
                yield f"case.yaml: promise {promise.quote[:60]!r} names the check {check}, which does not exist"


def _places(task: str, quote: str) -> list[tuple[int, int]]:
    pattern = r"\s+".join(re.escape(word) for word in quote.split())
    return [found.span() for found in re.finditer(pattern, task)]


def _spans(case: Case, code: _Code) -> Iterator[str]:
    task = case.task.read_text(encoding="utf-8")
    spans = code_spans(task)
    owners: dict[str, list[Promise]] = {span.text: [] for span in spans}
    for promise in case.spec.promises:
        for start, end in _places(task, promise.quote):
            for span in spans:
                if start <= span.start and span.end <= end and promise not in owners[span.text]:
                    owners[span.text].append(promise)
    for span in {span.text: span for span in spans}.values():
        yield from _span_faults(span, owners[span.text], code)


def _span_faults(span: Span, owners: list[Promise], code: _Code) -> Iterator[str]:
    if not owners:
        yield f"task.md: `{span.text[:80]}` is not in any promise of case.yaml; quote it, with its checks or an excuse"
        return
    if any(promise.excused and _plain(promise.quote).strip("`") == span.text for promise in owners):
        return
    checks = [check for promise in owners for check in promise.checks]
    if span.is_command and not any(code.runs(check, span.text) for check in checks):
        yield (
            f"task.md: the command `{span.text[:80]}` is not run by the checks of its promises"
            f" ({', '.join(checks) or 'none'}); use run_command in one of them, or excuse exactly this command"
        )
    if span.called and not (checks and code.names(span.called)):
        yield (
            f"task.md: `{span.text[:80]}` is promised, and no check calls {span.called}; probe it, or excuse exactly"
            " this span"
        )


class _Code:
    """What check.py and the code in hidden/ do, as far as their text shows."""

    def __init__(self, case: Case) -> None:
        self._tree = ast.parse(case.part("check.py").read_text(encoding="utf-8"))
        hidden = [path.read_text(encoding="utf-8", errors="replace") for path in case.part("hidden").rglob("*.py")]
        self._text = "\n".join([case.part("check.py").read_text(encoding="utf-8"), *hidden])
        self._parts: Mapping[str, ast.AST] = {name: part for node in self._tree.body for name, part in _defined(node)}
        self._checks = {node.name for node in check_functions(self._tree)}

    @property
    def uses(self) -> Iterator[tuple[int, str, str | None]]:
        """Line, kind and words of everything that needs a promise; None for words that are not plain strings."""
        for node in ast.walk(self._tree):
            if not isinstance(node, ast.Call) or _name(node.func) not in ("Probe", "run_command"):
                continue
            if _name(node.func) == "run_command":
                yield node.lineno, "the command", _constant(_argument(node, 1, "line"))
                continue
            yield node.lineno, "the probe", _constant(_argument(node, 0, "promise"))
            promised = _argument(node, 4, "promised")
            for value in promised.values if isinstance(promised, ast.Dict) else [promised] * (promised is not None):
                yield node.lineno, "the probe's words", _constant(value)

    def runs(self, check: str, command: str) -> bool:
        """Whether the check, or what it uses of check.py, hands this command line to a function."""
        if check not in self._checks:
            return False
        for part in self._reached(check):
            for node in ast.walk(part):
                if isinstance(node, ast.Call):
                    given = [*node.args, *(keyword.value for keyword in node.keywords)]
                    if any(self._line(argument) == command for argument in given):
                        return True
        return False

    def names(self, called: str) -> bool:
        """Whether the name occurs in the judge's code."""
        return re.search(rf"\b{re.escape(called)}\b", self._text) is not None

    def _line(self, node: ast.AST) -> str:
        """The command line that an argument holds, as a text or a list of words."""
        node = self._value(node)
        words = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
        return " ".join(text for word in words if (text := _constant(self._value(word))) is not None)

    def _value(self, node: ast.AST) -> ast.AST:
        """What a name stands for at the top of check.py."""
        return self._parts.get(node.id, node) if isinstance(node, ast.Name) else node

    def _reached(self, start: str) -> Iterator[ast.AST]:
        pending, seen = [start], {start}
        while pending:
            part = self._parts[pending.pop()]
            yield part
            found = {node.id for node in ast.walk(part) if isinstance(node, ast.Name)} & self._parts.keys() - seen
            seen |= found
            pending += sorted(found)


def _defined(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    """Names that a statement at the top of check.py defines, with what each stands for."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name, node
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
            yield from (
                (name.id, value) for name, value in zip(names, values, strict=True) if isinstance(name, ast.Name)
            )
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    named = [keyword.value for keyword in call.keywords if keyword.arg == name]
    return named[0] if named else call.args[place] if place < len(call.args) else None


def _constant(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
