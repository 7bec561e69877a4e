"""`ml-dev-bench schema`."""

from __future__ import annotations

import json

import click

from bench.schemas import FORMATS


@click.command()
@click.argument("name", type=click.Choice(sorted(FORMATS)))
def schema(name: str) -> None:
    """Print the JSON Schema of a file format."""
    from bench.schemas import json_schema

    click.echo(json.dumps(json_schema(name), indent=1))
