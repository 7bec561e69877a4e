"""`ml-dev-bench doctor`."""

from __future__ import annotations

import json

import click


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def doctor(as_json: bool) -> None:
    """Tell what this machine can do: sandboxes, GPU, disk, Python, ML stack; each line with its remedy."""
    from bench.doctor import examine
    from bench.places import find_places

    findings = list(examine(find_places().cache))
    if as_json:
        click.echo(json.dumps([vars(finding) for finding in findings], indent=1))
        return
    colours = {"ok": "green", "missing": "red", "note": "yellow"}
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        remedy = f"  -> {finding.remedy}" if finding.remedy else ""
        state = click.style(f"{finding.state:8}", fg=colours[finding.state])
        click.echo(f"{state}{finding.name:{width}}  {finding.detail}{remedy}")
