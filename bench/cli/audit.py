"""`ml-dev-bench results verify`: is everything stored still what it was?"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from bench.cli.ticker import Ticker
from bench.errors import EXIT_FAILED, UserError

_FINDINGS = 1000
"""Findings after which there is no point in going on."""


@click.command()
@click.argument("repository")
@click.option("--branch", default="mldb-results", show_default=True)
@click.option("--known", metavar="COMMIT", help="A tip seen earlier, which must still be part of the history.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def verify(repository: str, branch: str, known: str | None, as_json: bool) -> None:
    """Prove that nothing stored was changed: history, chain, digests, every line, unique ids, decisions, inline traces.

    A whole history that was replaced together with its chain can only be told by --known: note the tip that this
    command prints.

    Exit status: 0 nothing found; 1 there are findings, one a line; 2 the repository cannot be read as a whole.
    """
    from itertools import islice

    from bench.store.audit import Audit
    from bench.store.place import is_remote
    from bench.store.reading import open_copy
    from bench.store.shown import shown

    if not is_remote(repository) and not Path(repository).exists():
        raise UserError("no such repository", where=repository, remedy="name what `run --results` made")
    with open_copy(repository, branch, history=True) as copy, Ticker(as_json) as ticker:
        audit = Audit(copy, progress=ticker)
        findings = [
            {"where": shown(finding.where), "what": shown(finding.what)}
            for finding in islice(audit.findings(known), _FINDINGS + 1)
        ]
    if as_json:
        click.echo(json.dumps({"tip": copy.tip, **vars(audit.done), "findings": findings}, indent=1))
    else:
        for finding in findings[:_FINDINGS]:
            click.echo(f"{finding['where']}: {finding['what']}")
        if len(findings) > _FINDINGS:
            click.echo(f"more than {_FINDINGS} findings: the rest was not looked at")
        looked = ", ".join(f"{count} {name}" for name, count in vars(audit.done).items())
        click.echo(f"{len(findings)} findings; {looked}; tip {copy.tip}")
    if findings:
        sys.exit(EXIT_FAILED)
