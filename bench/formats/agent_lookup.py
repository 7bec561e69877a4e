"""Agents by their ids, among those that ship with the benchmark, or by their paths."""

from __future__ import annotations

from pathlib import Path

from bench.base.documents import is_file
from bench.base.errors import UserError
from bench.base.text import meant
from bench.formats.agent import Agent, load_agent

# Not `_shared`, which holds what several agents use.
_AGENTS = "[!_]*/agent.yaml"


def find_agent(name: str, root: Path) -> Agent:
    """An agent by the id of a folder below `root`, else by the path of its folder or of an agent.yaml.

    Of both the id is meant; `./NAME` is always a path.
    """
    if "/" in name or name.endswith((".yaml", ".yml")) or name == ".":
        return load_agent(Path(name))
    folder = root / name
    if not is_file(folder / "agent.yaml") or not name:
        if name and is_file(Path(name) / "agent.yaml"):
            return load_agent(Path(name))
        known = meant(name, (path.parent.name for path in root.glob(_AGENTS)))
        here = f"; the folder ./{name} does not hold an agent.yaml" if name and Path(name).is_dir() else ""
        remedy = f"{known}{here}; the path of an agent's folder works, too"
        raise UserError(f"no agent {name!r}", where=root, remedy=remedy)
    agent = load_agent(folder, trusted=True)
    if agent.id != name:
        fault = f"field `id` is {agent.id!r}, but the folder is {name!r}"
        raise UserError(fault, where=agent.file, remedy="make them equal")
    return agent


def load_agents(root: Path) -> list[Agent]:
    """All agents that ship with the benchmark, by id."""
    return [load_agent(path.parent, trusted=True) for path in sorted(root.glob(_AGENTS))]
