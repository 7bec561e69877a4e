"""`ml-dev-bench agents`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bench.base.text import printable
from bench.cli.groups import Group
from bench.cli.options import AGENTS, as_json
from bench.cli.printing import print_json

if TYPE_CHECKING:
    from bench.base.install import DataFolders


@click.group(cls=Group)
def agents() -> None:
    """List and show agents."""


@agents.command("list")
@AGENTS
@as_json()
def list_(folders: DataFolders, as_json: bool) -> None:
    """All agents, one a line."""
    from bench.formats.agent_lookup import load_agents
    from bench.report import table

    found = load_agents(folders.agents)
    if as_json:
        print_json([it.spec.model_dump(by_alias=True) for it in found])
        return
    rows = [
        (
            it.id,
            ", ".join(it.spec.models.values()) or "no model",
            f"{it.spec.title}{'' if it.spec.ranked else ' (not ranked)'}",
        )
        for it in found
    ]
    click.echo(table(rows))


@agents.command()
@click.argument("name", metavar="AGENT")
@AGENTS
@as_json()
def show(name: str, folders: DataFolders, as_json: bool) -> None:
    """One agent, by id or by the path of an agent.yaml."""
    from bench.formats.agent_lookup import find_agent

    agent = find_agent(name, folders.agents)
    if as_json:
        seen = {"files": agent.files.names, "left_out": agent.files.left_out}
        print_json({**agent.spec.model_dump(by_alias=True), "digest": agent.digest, **seen})
        return
    spec = agent.spec
    click.echo(f"{spec.id}: {spec.title}\n\n{spec.description}\n")
    click.echo(f"command       {' '.join(spec.command)}")
    click.echo(f"models        {', '.join(f'{role}={model}' for role, model in spec.models.items()) or 'none'}")
    click.echo(
        f"environment   {spec.environment.python or 'the Python of ml-dev-bench'}"
        f"{', ' + spec.environment.requirements if spec.environment.requirements else ''}"
    )
    click.echo(f"capabilities  {', '.join(spec.capabilities) or 'none'}")
    click.echo(f"ranked        {'yes' if spec.ranked else 'no'}")
    click.echo(f"digest        {agent.digest}")
    click.echo(f"files         {len(agent.files.names)} are shown to it, {agent.files.count_left_out} are not")
    for name in agent.files.left_out:
        click.echo(f"  not shown   {printable(name, 200)}")
