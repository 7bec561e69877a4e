"""The step action `issues`: what `trends --issues` does, told by its inputs."""

from __future__ import annotations

import os

import click
from pydantic import Field

from bench.base.model import Model
from bench.cli.action_inputs import annotated, own_repository, read_inputs, runner_variable, use_token
from bench.cli.printing import print_text
from bench.cli.trend_text import as_text
from bench.cli.trends import NIGHTS, file_issues, find_trends


class IssueInputs(Model):
    """The inputs of the step action `issues`."""

    control: str = ""
    runs: str = "*"
    margin: float = Field(0.05, gt=0, le=1)
    results_repository: str = Field("", alias="results-repository")
    results_branch: str = Field("mldb-results", alias="results-branch")


@click.command()
@annotated
def issues() -> None:
    """Keep the issues of this repository about drops in its nights."""
    from bench.base.text import escape
    from bench.cli.stored import stored_nights
    from bench.github import add_summary, annotate_warning, set_outputs

    token = os.environ.pop("MLDB_TOKEN", "")
    told = read_inputs(IssueInputs)
    source = told.results_repository or own_repository()
    use_token(token, source)
    found = find_trends(
        stored_nights(source, told.results_branch, "success", told.runs, NIGHTS), told.margin, NIGHTS, told.control
    )
    print_text(as_text(found, "success"))
    done = file_issues(runner_variable("GITHUB_REPOSITORY"), found, "success", told.margin, token)
    for line in done:
        annotate_warning(line)
    add_summary("".join(["## Nights\n\n", *(f"- {escape(line)}\n" for line in done or ["no issue had to change"])]))
    set_outputs({"drops": str(sum(it.drop is not None for it in found))})
