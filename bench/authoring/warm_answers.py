"""Wrong answers laid over a workspace and run, in a fork of a process that has imported the libraries they need.

The solution runs as an agent would run it, in a sandbox started for it. Most of what the command of a wrong answer
would take there is the import of the same libraries, once an answer.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
from collections.abc import Iterator, Sequence
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
        if overlay.run and not (self._forks and _is_program(overlay.run)):
            run_agent(folder, overlay)
            return
        lay_over(overlay.folder, folder.workspace)
        for path in overlay.removed:
            (folder.workspace / path).unlink()
        try:
            self._fork(folder, overlay.run[1:])
        except (CannotFork, RuntimeError):
            # Namespaces are refused, or a library that is there cannot be imported, which the answer need not do.
            self._forks = False
            self.close()
            run_agent(folder, Overlay(overlay.folder, overlay.run, last=overlay.last))
            return
        if overlay.last is not None:
            lay_over(overlay.last, folder.workspace)

    def _fork(self, folder: CellFolder, program: list[str]) -> None:
        specs = folder.cell.case.spec.services
        with folder.running_services(folder.context.socket_folder(folder.cell)) as services:
            if program:
                warm = self._ready(folder, set(_libraries(folder.workspace)))
                named = {specs[name].env: path for name, path in services.items()}
                warm.run(folder.workspace, program, warm.preparation.limits, named)

    def _ready(self, folder: CellFolder, libraries: set[str]) -> WarmProcess:
        """A process that has imported at least `libraries`."""
        case = folder.cell.case
        limits = job_limits(case.spec.limits, case.spec.limits.agent_s)
        if self._warm is not None:
            earlier = self._warm.preparation
            if earlier.limits == limits and libraries <= set(earlier.preload) and self._warm.alive():
                return self._warm
            libraries = libraries | set(earlier.preload)
            self.close()
        surroundings = cell_environment(case, folder.context.provenance.run, "", folder.gpu)
        preparation = Preparation(tuple(sorted(libraries)), self._arena, limits, surroundings, programs=True)
        self._warm = self._hold.enter_context(start_warm(self._sandbox, preparation))
        return self._warm


def _is_program(command: Sequence[str]) -> bool:
    return len(command) > 1 and command[0] == "python" and not command[1].startswith("-")


def _libraries(workspace: Path) -> Iterator[str]:
    """What the programs of a workspace import and may be imported before they are there."""
    for path in sorted(workspace.rglob("*.py")):
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        for name in (name for node in ast.walk(tree) for name in _named(node)):
            own = workspace / name.partition(".")[0]
            if not own.is_dir() and not own.with_suffix(".py").is_file() and _is_inert(name):
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
