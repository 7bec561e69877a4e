"""Wrong answers laid over a workspace and run, in a fork of a process that has imported the libraries they need.

The solution runs as an agent would run it, in a sandbox started for it. Most of what the command of a wrong answer
would take there is the import of the same libraries, once an answer.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from bench.base.files import lay_over
from bench.cell import CellFolder, Overlay, run_agent
from bench.sandbox import CannotFork, Preparation, Sandbox, WarmProcess, cell_environment, job_limits, start_warm

_INERT = frozenset({"numpy", "pandas", "PIL", "safetensors", "scipy", "sklearn", "torch", "torchvision"})
"""Libraries that read nothing of an answer's surroundings, such as the address of a service, when they are imported."""
_FIRST_OPTIMIZER = "torch._dynamo"
"""What torch imports when the first optimizer is made."""


class WarmAnswers:
    """Runs the wrong answers of one case after the other; its forks see workspaces below `arena`."""

    def __init__(self, sandbox: Sandbox, arena: Path) -> None:
        self._sandbox = sandbox
        self._arena = arena
        # What a container shares with this machine belongs to another user, or is seen through one limit.
        self._forks = sandbox.name != "docker"
        self._hold = contextlib.ExitStack()
        self._warm: WarmProcess | None = None

    def close(self) -> None:
        """End the process that has the libraries."""
        self._warm = None
        self._hold.close()

    def run(self, folder: CellFolder, overlay: Overlay) -> None:
        """Lay `overlay` over the workspace of `folder` and run its command, with the services of the agent phase."""
        is_program = overlay.run[:1] == ["python"] and overlay.run[1:2] != [] and not overlay.run[1].startswith("-")
        if overlay.run and not (is_program and self._forks):
            run_agent(folder, overlay)
            return
        lay_over(overlay.folder, folder.workspace)
        for path in overlay.removed:
            (folder.workspace / path).unlink()
        try:
            self._fork(folder, overlay.run[1:])
        except CannotFork:
            self._forks = False
            run_agent(folder, Overlay(overlay.folder, overlay.run, last=overlay.last))
            return
        if overlay.last is not None:
            lay_over(overlay.last, folder.workspace)

    def _fork(self, folder: CellFolder, program: list[str]) -> None:
        case, sockets = folder.cell.case, folder.context.socket_folder(folder.cell)
        limits = job_limits(case.spec.limits, case.spec.limits.agent_s)
        with folder.running_services(sockets) as services:
            if program:
                warm = self._ready(folder, tuple(sorted(_libraries(folder.workspace))))
                named = {case.spec.services[name].env: path for name, path in services.items()}
                warm.run(folder.workspace, program, limits, named)

    def _ready(self, folder: CellFolder, libraries: tuple[str, ...]) -> WarmProcess:
        """A process that has imported at least `libraries`."""
        earlier = self._warm.preparation if self._warm is not None else None
        limits = job_limits(folder.cell.case.spec.limits, folder.cell.case.spec.limits.agent_s)
        if self._warm is not None and earlier is not None:
            if earlier.limits == limits and set(libraries) <= set(earlier.preload) and self._warm.alive():
                return self._warm
            libraries = tuple(sorted({*earlier.preload, *libraries}))
            self.close()
        case = folder.cell.case
        surroundings = cell_environment(case, folder.context.provenance.run, "", folder.gpu)
        preparation = Preparation(libraries, self._arena, limits, surroundings, programs=True)
        self._warm = self._hold.enter_context(start_warm(self._sandbox, preparation))
        return self._warm


def _libraries(workspace: Path) -> Iterator[str]:
    """What the programs of a workspace import and may be imported before they are there."""
    for path in sorted(workspace.rglob("*.py")):
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            for name in _named(node):
                if not (workspace / name.partition(".")[0]).is_dir() and _is_inert(name):
                    yield name


def _named(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [node.module]
    # `torch.optim` is there without an import of its own.
    if isinstance(node, ast.Attribute) and node.attr == "optim":
        return [_FIRST_OPTIMIZER]
    return []


def _is_inert(name: str) -> bool:
    top, *below = name.split(".")
    # To ask for the whole name would import the library here.
    spec = importlib.util.find_spec(top) if top in _INERT else None
    if spec is None or not spec.submodule_search_locations:
        return False
    place = Path(spec.submodule_search_locations[0], *below)
    return place.is_dir() or place.with_suffix(".py").is_file()
