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
from bench.cell import CellFolder

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
reached through a Unix socket), a process for the case's services, the agent's sandbox, and later a judge. The judge
is forked from a server that all cells share (`bench/judge/server.py`), like what takes snapshots and removes folders.
It never imports what it judges: it runs the agent's code in sandboxes of its own (`bench/guest/subject.py`).
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
    """Every `with clock.phase(...)` of bench/cell/run.py, in the order of the phases of a record."""
    tree = ast.parse((ROOT / "bench" / "cell" / "run.py").read_text(encoding="utf-8"))
    modules = _imported(tree)
    named = {_phase_name(node): node for node in ast.walk(tree) if isinstance(node, ast.With)}
    order = ("prepare", "agent", "snapshot", "judge")
    return [_Phase(name, list(dict.fromkeys(_calls(named[name], modules)))) for name in order]


def _phase_name(node: ast.With) -> str:
    call = node.items[0].context_expr
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "phase"):
        return ""
    (argument,) = call.args
    return str(argument.value) if isinstance(argument, ast.Constant) else ""


def _imported(tree: ast.Module) -> dict[str, str]:
    """Imported names of bench, `base` and `guest` apart, with the module or room they come from."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {
        alias.name: (node.module or "").removeprefix("bench.").removeprefix("cell.")
        for node in imports
        if (node.module or "").startswith("bench.") and (node.module or "").split(".")[1] not in ("base", "guest")
        for alias in node.names
    }


def _calls(node: ast.AST, modules: dict[str, str]) -> Iterator[str]:
    """Called functions of bench, and called methods of the cell's folder, in the order in which they stand."""
    calls = [it.func for it in ast.walk(node) if isinstance(it, ast.Call)]
    for called in sorted(calls, key=lambda it: (it.lineno, it.col_offset)):
        if isinstance(called, ast.Name) and called.id in modules:
            yield f"{modules[called.id]}.{called.id}"
        elif isinstance(called, ast.Attribute) and called.attr in vars(CellFolder):
            yield f"{CellFolder.__module__.removeprefix('bench.cell.')}.CellFolder.{called.attr}"


if __name__ == "__main__":
    write_atomic(Path(sys.argv[1]), page().encode())
