"""`ml-dev-bench doctor`: what this machine can do, each finding with its remedy."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from bench.base.errors import EXIT_FAILED
from bench.cli.options import as_json
from bench.cli.printing import print_json

if TYPE_CHECKING:
    from bench.cli.health import HealthCheck


@click.command()
@click.option("--gpu", is_flag=True, help="Only the GPUs, with a real probe in each sandbox; status 1 unless all work.")
@as_json()
def doctor(gpu: bool, as_json: bool) -> None:
    """Tell what this machine can do: sandboxes, GPU, disk, Python, ML stack; each line with its remedy."""
    from bench.base.install import find_data_folders
    from bench.cli.doctor_gpu import check_gpus
    from bench.cli.health import check_health

    folders = find_data_folders()
    findings = list(check_gpus() if gpu else check_health(folders.cache, folders.cases))
    _print(findings, as_json)
    if gpu and any(finding.state == "missing" for finding in findings):
        sys.exit(EXIT_FAILED)


def _print(findings: Sequence[HealthCheck], as_json: bool) -> None:
    from bench.report import table

    if as_json:
        print_json([vars(finding) for finding in findings])
        return
    rows = [(it.state, it.name, _said(it)) for it in findings]
    click.echo(table(rows, colours={"ok": "green", "missing": "bright_red", "note": "cyan"}))


def _said(it: HealthCheck) -> str:
    """A finding with its remedy; what begins with the name of what was looked at would say it twice."""
    remedy = f" -> {it.remedy}" if it.remedy else ""
    return f"{it.detail.removeprefix(f'{it.name}: ')}{remedy}"
