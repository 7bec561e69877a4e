"""Writes docs/architecture.md from the code: `python -m scripts.architecture docs/architecture.md`, or `make docs`.

The rooms come from the contract that import-linter keeps, what each is for from its own first line, and the life of a
cell from the calls inside `with clock.phase(...)`.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.base.files import write_atomic

ROOT = Path(__file__).resolve().parents[1]
_PAGE = """# Architecture

<!-- Written by `make docs` from the code. Change the code or scripts/architecture.py, then run it again. -->

`bench` is the only package. It has {count} rooms in {layers} layers: a room imports from lower layers only, and
enters another room through its `__init__`, which offers its few names and imports a module when one of them is
first asked for. The modules of `guest`, `base`, `formats` and `casekit` are their own faces. `make lint` keeps all
of this (`[tool.importlinter]` in [pyproject.toml](../pyproject.toml)), without exceptions, and there are no circles
of modules. Cases and agents are data: nothing in `bench` imports them.

## The rooms

```mermaid
{rooms}
```

{table}

## The life of a cell

[`bench/cell/run.py`](../bench/cell/run.py) is the heart. A failure in any phase has a cause in the one table of
[`bench/formats/failures.py`](../bench/formats/failures.py), which says whose fault it is and whether another try
may help.

```mermaid
{life}
```

Processes: the runner is one process with a thread a cell. Each cell has a gateway (a process outside the sandbox,
reached through a Unix socket), a process for the case's services, the agent's sandbox, and later a judge, which
never imports what it judges: it runs the agent's code in sandboxes of its own (`bench/guest/subject.py`).
"""


def page() -> str:
    """The whole page, the same on every machine."""
    layers = _layers()
    rooms = [room for layer in layers for room in layer]
    table = ["| room | what lives there |", "|---|---|"]
    table += [f"| [`{room}`](../bench/{room}) | {_purpose(room)} |" for room in rooms]
    return _PAGE.format(
        count=len(rooms), layers=len(layers), rooms=_room_diagram(layers), table="\n".join(table), life=_life_diagram()
    )


def _layers() -> list[list[str]]:
    """The rooms, the highest layer first."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (layered,) = [contract for contract in contracts if contract["type"] == "layers"]
    return [[name.strip().removeprefix("bench.") for name in layer.split("|")] for layer in layered["layers"]]


def _purpose(room: str) -> str:
    first = (importlib.import_module(f"bench.{room}").__doc__ or "").split("\n\n")[0]
    return " ".join(first.split()).rstrip(".")


def _room_diagram(layers: list[list[str]]) -> str:
    lines = ["flowchart TB"]
    for number, layer in enumerate(layers):
        lines += [f'    subgraph L{number}[" "]', "        direction LR"]
        lines += [f"        {room}" for room in layer]
        lines.append("    end")
    lines += [f"    L{number} --> L{number + 1}" for number in range(len(layers) - 1)]
    return "\n".join(lines)


@dataclass(frozen=True)
class _Phase:
    name: str
    calls: list[str]
    """`module.function` for each function of bench that the phase calls, in order."""


def _life_diagram() -> str:
    lines = ["flowchart LR"]
    phases = [*_phases(), _Phase("record", ["recorder.write_record"])]
    for phase in phases:
        shown = "<br/>".join(phase.calls)
        lines.append(f'    {phase.name}["<b>{phase.name}</b><br/>{shown}"]')
    lines += [f"    {one.name} --> {two.name}" for one, two in itertools.pairwise(phases)]
    return "\n".join(lines)


def _phases() -> list[_Phase]:
    """Every `with clock.phase(...)` of bench/cell, in the order of the phases of a record."""
    found = {}
    for path in sorted((ROOT / "bench" / "cell").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        modules = _imported(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.With) and (name := _phase_name(node)):
                own = dict.fromkeys(functions, path.stem)
                calls = dict.fromkeys(_calls(node, modules, own, functions))
                found[name] = _Phase(name, list(calls))
    return [found[name] for name in ("prepare", "agent", "snapshot", "judge")]


def _phase_name(node: ast.With) -> str:
    call = node.items[0].context_expr
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "phase"):
        return ""
    (argument,) = call.args
    return str(argument.value) if isinstance(argument, ast.Constant) else ""


def _imported(tree: ast.Module) -> dict[str, str]:
    """Imported functions of bench (not classes) by name, with the module or room they come from."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {
        alias.name: (node.module or "").removeprefix("bench.").removeprefix("cell.")
        for node in imports
        if (node.module or "").startswith("bench.")
        and not (node.module or "").startswith(("bench.base", "bench.guest"))
        for alias in node.names
        if alias.name[0].islower()
    }


def _calls(
    node: ast.AST, modules: dict[str, str], own: dict[str, str], functions: dict[str, ast.FunctionDef]
) -> Iterator[str]:
    calls = [it for it in ast.walk(node) if isinstance(it, ast.Call) and isinstance(it.func, ast.Name)]
    for call in sorted(calls, key=lambda it: (it.lineno, it.col_offset)):
        assert isinstance(call.func, ast.Name)
        name = call.func.id
        if name in modules:
            yield f"{modules[name]}.{name}"
        elif name in own and name.startswith("_"):
            # A step that the module only gives a name: what it calls tells more.
            yield from _calls(functions[name], modules, {}, functions)
        elif name in own:
            yield f"{own[name]}.{name}"


if __name__ == "__main__":
    write_atomic(Path(sys.argv[1]), page().encode())
