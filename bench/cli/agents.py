"""`ml-dev-bench agents`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from bench.cli.options import PATH, as_json

_FOLDER = click.option(
    "--agents",
    "root",
    type=PATH,
    help="Folder of agents; default: those that ship with the benchmark.",
)


@click.group()
def agents() -> None:
    """List and show agents."""


@agents.command("list")
@_FOLDER
@as_json()
def list_(root: Path | None, as_json: bool) -> None:
    """All agents, one a line."""
    from bench.base.install import find_data_folders
    from bench.formats.agent import load_agents
    from bench.report import table

    found = load_agents(find_data_folders(agents=root).agents)
    if as_json:
        click.echo(json.dumps([it.spec.model_dump(by_alias=True) for it in found], indent=1))
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
@_FOLDER
@as_json()
def show(name: str, root: Path | None, as_json: bool) -> None:
    """One agent, by id or by the path of an agent.yaml."""
    from bench.base.install import find_data_folders
    from bench.formats.agent import find_agent

    agent = find_agent(name, find_data_folders(agents=root).agents)
    if as_json:
        click.echo(json.dumps({**agent.spec.model_dump(by_alias=True), "digest": agent.digest}, indent=1))
        return
    spec = agent.spec
    click.echo(f"{spec.id}: {spec.title}\n\n{spec.description}\n")
    click.echo(f"command       {' '.join(spec.command)}")
    click.echo(f"models        {', '.join(f'{role}={model}' for role, model in spec.models.items()) or 'none'}")
    click.echo(
        f"environment   {spec.environment.python or 'the benchmark own Python'}"
        f"{', ' + spec.environment.requirements if spec.environment.requirements else ''}"
    )
    click.echo(f"capabilities  {', '.join(spec.capabilities) or 'none'}")
    click.echo(f"ranked        {'yes' if spec.ranked else 'no'}")
    click.echo(f"digest        {agent.digest}")
