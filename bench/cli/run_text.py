"""What the commands that run cells say of the records in the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.cli.printing import print_text

if TYPE_CHECKING:
    from bench.formats.record import Record

_MOST_LOGS = 5


def tell_records(folder: Path, records: Sequence[Record]) -> None:
    """One line about all records of a run, and the looks that were made."""
    from bench.formats.seeds import seeds_mark

    graded = [record for record in records if record.outcome == "graded"]
    print_text(
        f"{sum(bool(record.success) for record in graded)} of {len(graded)} graded cells succeeded; "
        f"{len(records) - len(graded)} without a verdict; records in {folder / 'cells'}"
    )
    _tell_where_to_look(folder, [record for record in records if not record.success])
    if any(record.provenance.sequential for record in records):
        from bench.report import sequential_lines
        from bench.stats import sequential_state

        if (state := sequential_state(records)) is not None:
            print_text("\n".join(sequential_lines(state)))
    if public := sum(seeds_mark(record) == "public" for record in records):
        print_text(f"marked: {public} of {len(records)} cells met public data, which anyone can compute")


def warn_of_conditions(records: Sequence[Record], folder: Path, repository: str, branch: str) -> None:
    """Say on standard error what is not as in the agents' earlier results: those of the branch, else of runs beside."""
    from bench.cli.stored import earlier_records
    from bench.stats import changed_conditions

    agents = sorted({record.agent.id for record in records})
    for line in changed_conditions(records, earlier_records(folder, agents, repository, branch)):
        click.echo(f"warning: {line}", err=True)


def _tell_where_to_look(folder: Path, failed: Sequence[Record]) -> None:
    """Where the reasons are for cells that did not succeed."""
    from bench.formats.plan import slug_of

    for record in failed[:_MOST_LOGS]:
        if (log := folder / "traces" / slug_of(record.cell) / "agent.log").is_file():
            name = f"{record.agent.id} on {record.case.id}, trial {record.trial}"
            print_text(f"log of {name}: {log}")
    if len(failed) > _MOST_LOGS:
        print_text(f"logs of {len(failed) - _MOST_LOGS} more cells: {folder / 'traces'}")
    if failed:
        cell = f" {failed[0].cell}" if len(failed) == 1 else ""
        print_text(f"why: ml-dev-bench results explain {folder}{cell}")
