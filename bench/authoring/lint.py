"""Faults of a case folder that are found without running the case."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from pathlib import Path

from bench.authoring.lint_answers import lint_answers
from bench.authoring.promises import promise_faults
from bench.authoring.staging import ANSWERS
from bench.base.files import sha256_file, walk_files
from bench.formats.case import Case
from bench.formats.tags import TAGS
from bench.formats.verdict import OUTPUTS_CHECK, check_functions, unreadable_checks

_TELLING_LINE = 30
"""Characters of a line of the solution that cannot be in the task by coincidence."""
_TEXT = frozenset({".py", ".md", ".txt", ".yaml", ".yml", ".json", ".csv", ".toml", ".cfg", ".ini", ".sh", ""})
_CODE = ("check.py", "data.py", "services.py")
_ANSWER_PATH = re.compile(rf"(?!/)(?:\S*[/\\])?(?:{'|'.join(ANSWERS)})(?:[/\\]\S*)?")
"""Relative: an absolute one is an address of a service."""
_OPENS = frozenset({"Path", "PurePath", "glob", "iterdir", "join", "joinpath", "listdir", "open", "part", "rglob"})
_UNWANTED = frozenset({".git", "conftest.py", "__pycache__", ".DS_Store", "pytest.ini", "sitecustomize.py"})


def lint(case: Case) -> list[str]:
    """Faults of the folder, each one line with its place and remedy."""
    unreadable = list(unreadable_code(case))
    return unreadable or [
        *_task(case),
        *_workspace(case),
        *_checks(case),
        *_reads_answers(case),
        *_answers(case),
        *promise_faults(case),
    ]


def unreadable_code(case: Case) -> Iterator[str]:
    """What keeps the task and the case's own code from being read at all, with file, line and remedy."""
    for name in ("task.md", *_CODE):
        path = case.part(name)
        if not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
            if name.endswith(".py"):
                ast.parse(text)
        except UnicodeDecodeError as error:
            yield f"{name}: byte {error.start} is not UTF-8; save the file as UTF-8"
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            message = error.msg if isinstance(error, SyntaxError) else str(error)
            yield f"{name}: line {getattr(error, 'lineno', None) or 1}: {message}; fix the syntax"


def _task(case: Case) -> Iterator[str]:
    task = case.task.read_text(encoding="utf-8")
    files = {file.path: file for profile in case.profiles for file in case.for_profile(profile).spec.outputs.files}
    for output in files.values():
        if output.path not in task and Path(output.path).name not in task:
            yield f"task.md: does not name the output {output.path}; tell the agent what is judged"
    for tag in sorted(set(case.spec.tags) - TAGS):
        near = difflib.get_close_matches(tag, TAGS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "take one of bench/formats/tags.py, or add it there"
        yield f"case.yaml: the tag {tag!r} is not in the vocabulary; {hint}"
    if not case.part("README.md").is_file():
        yield "README.md: is missing; say what the original measured and what is judged here"


def _workspace(case: Case) -> Iterator[str]:
    workspace = case.part("workspace")
    for path in sorted(workspace.rglob("*")):
        if path.name in _UNWANTED:
            yield f"{path.relative_to(workspace.parent)}: does not belong in a workspace; remove it"
    for name in case.spec.protected:
        if not case.part("workspace").joinpath(name).exists() and not case.part("data.py").is_file():
            yield f"case.yaml: protected file {name} is not in workspace/; add it, or drop it from `protected`"
    yield from _leaks(case)


def _leaks(case: Case) -> Iterator[str]:
    """Lines that only the solution or the judge should know, in the task; whole hidden files in the workspace."""
    task = {line.strip() for line in case.task.read_text(encoding="utf-8").splitlines()}
    starter = _lines(case.part("workspace"))
    for part in ("solution", "hidden"):
        # A line that the starter has, too, is not secret: solutions repeat files of the workspace.
        secret = {line for line in _lines(case.part(part)) if len(line) >= _TELLING_LINE} - starter
        for line in sorted(secret & task)[:3]:
            yield f"{part}/: the line {line[:60]!r} is in task.md, too; remove it there"
    for name in same_files(case.part("hidden"), case.part("workspace")):
        yield f"hidden/{name}: is in workspace/, too, where the agent reads it; remove it there"


def same_files(secret: Path, public: Path) -> list[str]:
    """Files below `secret`, other than empty and code files, whose content is also a file below `public`."""
    seen = {sha256_file(Path(entry.path)) for _, entry in walk_files(public) if entry.is_file(follow_symlinks=False)}
    return [
        name
        for name, entry in walk_files(secret)
        if entry.stat().st_size and not name.endswith(".py") and sha256_file(Path(entry.path)) in seen
    ]


def _lines(folder: Path) -> set[str]:
    found: set[str] = set()
    for name, entry in walk_files(folder):
        if Path(name).suffix in _TEXT and entry.is_file(follow_symlinks=False):
            text = Path(entry.path).read_text(encoding="utf-8", errors="replace")
            found |= {line.strip() for line in text.splitlines() if line.strip()}
    return found


def _checks(case: Case) -> Iterator[str]:
    tree = ast.parse(case.part("check.py").read_text(encoding="utf-8"))
    for line, fault in unreadable_checks(tree):
        yield f"check.py: line {line}: {fault}; collecting results reads checks without running them"
    checks = check_functions(tree)
    if not checks:
        yield "check.py: defines no check; decorate a function with @check(...)"
    for node in checks:
        if not ast.get_docstring(node):
            yield f"check.py: {node.name} has no docstring; say in one line what it shows"
        facts = {ast.unparse(it) for it in _keywords(node)}
        if not {"weight=0", "guard=True"} & facts:
            yield from _status_alone(node)
        if "guard=True" in facts:
            yield from _looks_away(node)
    for inner in ast.walk(tree):
        if isinstance(inner, ast.Assert) and inner.msg is None:
            yield f"check.py: line {inner.lineno}: assert without a message; the message is the evidence"
        if isinstance(inner, ast.Assert) and any(map(_denies_an_order, ast.walk(inner.test))):
            yield f"check.py: line {inner.lineno}: `assert not a > b` lets NaN pass; write `assert a <= b`"
    if any(isinstance(it, ast.Attribute) and it.attr == "stopwatch" for it in ast.walk(tree)) and not all(
        case.for_profile(profile).spec.needs.cpu_time for profile in case.profiles
    ):
        yield "case.yaml: check.py uses a stopwatch; say `needs: {cpu_time: true}`"
    known = {OUTPUTS_CHECK, *(node.name for node in checks)}
    for name in case.spec.milestones:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "name a check"
            yield f"case.yaml: the milestone {name!r} is not a check; {hint}"
    required = any("required=True" in ast.unparse(node.decorator_list[0]) for node in checks)
    weights = [case.for_profile(profile).spec.outputs.weight for profile in case.profiles]
    if not required and not all(weights):
        yield "check.py: no check is required; `success` would mean nothing"


def _denies_an_order(node: ast.AST) -> bool:
    """Whether it is `not` before an ordering comparison, or before several: NaN is neither above nor below."""
    if not (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        return False
    parts = node.operand.values if isinstance(node.operand, ast.BoolOp) else [node.operand]
    orders = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)
    return any(isinstance(part, ast.Compare) and any(isinstance(it, orders) for it in part.ops) for part in parts)


def _keywords(check: ast.FunctionDef) -> Iterator[ast.keyword]:
    for decorator in check.decorator_list:
        yield from decorator.keywords if isinstance(decorator, ast.Call) else ()


def _status_alone(check: ast.FunctionDef) -> Iterator[str]:
    """Commands of which a check that earns credit looks at the exit status and at nothing that they made."""
    read = {node.id for node in ast.walk(check) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    for node in ast.walk(check):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) if name in read:
                continue
            case (
                ast.Expr(value=ast.Call(func=ast.Name(id="run_command") | ast.Attribute(attr="ok")))
                | ast.Assign(value=ast.Call(func=ast.Name(id="run_command") | ast.Attribute(attr="ok")))
                | ast.Attribute(attr="code")
            ):
                yield (
                    f"check.py: line {node.lineno}: {check.name} earns credit by an exit status, which the agent's code"
                    " decides; run the command in a check of its own with weight=0, required=True"
                )


def _looks_away(guard: ast.FunctionDef) -> Iterator[str]:
    """Handlers by which a guard passes where it cannot look: an answer that it would refuse breaks what it looks at."""
    for node in ast.walk(guard):
        match node:
            case ast.ExceptHandler():
                away = not any(isinstance(it, ast.Raise) for it in ast.walk(node))
            case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress")):
                away = True
            case _:
                away = False
        if away and isinstance(node, ast.ExceptHandler | ast.Call):
            yield (
                f"check.py: line {node.lineno}: {guard.name} passes where it cannot look; let it fail, and leave it"
                " early only where `ws.handed_in(...)` finds nothing"
            )


def _reads_answers(case: Case) -> Iterator[str]:
    """Paths into the folders of answers in the code of judge, data and services: a verdict may not depend on these."""
    hidden = [path for folder in case.parts("hidden") for path in sorted(folder.rglob("*.py"))]
    for path in [*(case.part(name) for name in _CODE if case.part(name).is_file()), *hidden]:
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError):
            continue  # code of another language version, which only the sandbox runs
        for node in ast.walk(tree):
            for text in _parts_of_paths(node):
                if _ANSWER_PATH.fullmatch(text):
                    name = path.relative_to(next(it for it in case.folders if path.is_relative_to(it)))
                    line = getattr(node, "lineno", 1)
                    yield (
                        f"{name}: line {line}: reads {text!r}; judge by what the agent left, and put what the"
                        " judge needs into hidden/"
                    )


def _parts_of_paths(node: ast.AST) -> list[str]:
    """Texts that an expression uses as a path or a part of one."""
    match node:
        case ast.BinOp(op=ast.Div()):
            values = [node.left, node.right]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _OPENS:
            values = list(node.args)
        case ast.Constant(value=str(text)) if {"/", "\\"} & set(text):
            return [text]
        case _:
            return []
    texts = [it.value for it in values if isinstance(it, ast.Constant) and isinstance(it.value, str)]
    return [text for text in texts if not {"/", "\\"} & set(text)]


def _answers(case: Case) -> Iterator[str]:
    if not case.part("solution").is_dir() and not case.spec.solution.run:
        yield "solution/: is missing; add the reference answer"
    yield from lint_answers(case)
