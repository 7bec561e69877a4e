"""`ml-dev-bench action comment`: what a gate found, checked again, and told to its pull request."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import ValidationError

from bench.base.errors import EXIT_FAILED, UserError
from bench.base.model import explain
from bench.base.text import printable
from bench.cli.action_gate import CONCLUSIONS, NO_VERDICT, NOT_GATED, UNCHANGED, GateInputs
from bench.cli.action_inputs import Words, annotated, own_repository, read_inputs, runner_variable, use_token
from bench.github import annotate_error, set_outputs

if TYPE_CHECKING:
    from bench.formats.record import Record
    from bench.github import Event, GitHubApi, Pull, Said, WorkflowRun
    from bench.runs import Claims

_REFUSED = "refused"
_MILDEST_FIRST = ("success", "neutral", "failure")


_DECISIVE = (".github/workflows", ".github/actions")
"""Where the workflows of a repository are, and by custom the actions of its own that they call."""


_ARCHIVE_BYTES = 256 << 20


class CommentInputs(GateInputs):
    """The inputs of the step action `comment`."""

    actor: str = "github-actions[bot]"
    branches: Words = []


@click.command()
@annotated
def comment() -> None:
    """Check the records of a finished gate as untrusted data, and tell its pull request and commit what they say."""
    from bench.github import find_pulls, open_api, put_check, put_comment

    # Out of the environment first: nothing that this step starts may inherit it.
    token = os.environ.pop("MLDB_TOKEN", "")
    told, event = read_inputs(CommentInputs), _event()
    run, repository = event.workflow_run, event.repository.full_name
    if run.event != "pull_request" or run.conclusion in ("cancelled", "skipped"):
        click.echo(f"nothing to say: a run of {run.event}, {run.conclusion or 'not ended'}")
        return
    if not token:
        raise UserError("is not given", where="token", remedy="give the step one with pull-requests and checks: write")
    api = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
    remedy = "the job needs actions and contents: read, pull-requests and checks: write"
    with (
        open_api(repository, token, api=api, remedy=remedy) as github,
        tempfile.TemporaryDirectory(dir=runner_variable("RUNNER_TEMP")) as scratch,
    ):
        every = find_pulls(github, run)
        judged = _judged(github, every, told.branches, event.repository.default_branch)
        found = _examined(github, run, told, (every, judged), Path(scratch), token) if judged else []
        for pull, said in found:
            click.echo(put_check(github, pull, run, said))
            click.echo(put_comment(github, pull, run, said, told.actor))
    if not found:
        click.echo(_nothing(run, every))
        return
    worst = max((said for _, said in found), key=lambda said: _MILDEST_FIRST.index(said.conclusion))
    set_outputs({"verdict": worst.title, "conclusion": worst.conclusion})
    if worst.title.startswith(_REFUSED):
        annotate_error(worst.title)
        sys.exit(EXIT_FAILED)


def _judged(github: GitHubApi, pulls: Sequence[Pull], branches: Sequence[str], default: str | None) -> list[Pull]:
    """Those of `pulls` that go into one of `branches`; without any, into the branch `default` or a protected one.

    Whoever may push any branch makes one that has head's change already: against that one nothing has changed.
    """
    from bench.github import is_protected

    if branches:
        return [pull for pull in pulls if pull.base.ref in branches]
    return [pull for pull in pulls if pull.base.ref == default or is_protected(github, pull.base.ref)]


def _nothing(run: WorkflowRun, every: Sequence[Pull]) -> str:
    if not every:
        return f"nothing to say: no open pull request has the head {run.head_sha[:12]} by now"
    into = ", ".join(f"#{pull.number} into {printable(pull.base.ref)}" for pull in every)
    return f"nothing to say of {into}: no default or protected branch, or not one of the input `branches`"


def _event() -> Event:
    from bench.github import Event

    path = Path(runner_variable("GITHUB_EVENT_PATH"))
    try:
        event = Event.model_validate_json(path.read_bytes())
    except ValidationError as error:
        remedy = "call this from an event `workflow_run`"
        raise UserError(explain(error, Event), where=path, remedy=remedy) from None
    if event.repository.full_name.lower() != runner_variable("GITHUB_REPOSITORY").lower():
        raise UserError(f"is of {event.repository.full_name}", where=path, remedy="call this from its own repository")
    return event


@dataclass(frozen=True)
class _Found:
    """What the artifact holds, as far as it is true."""

    verdict: str
    records: Sequence[Record]
    notes: Sequence[str]


def _examined(
    github: GitHubApi,
    run: WorkflowRun,
    told: CommentInputs,
    pulls: tuple[Sequence[Pull], Sequence[Pull]],
    scratch: Path,
    token: str,
) -> list[tuple[Pull, Said]]:
    """What is to be said to which pull request.

    pulls: all that have this head, and those of them that are judged. Which of them a run was of, its artifact alone
    says: one that left none, or one that cannot be read, is told to all that are judged.
    """
    from bench.github import choose_pull, fetch_artifact, shared_commit
    from bench.runs import Claims
    from bench.store import Caps, unpack_artifact

    every, judged = pulls
    name = f"{told.name}-{run.id}-{run.run_attempt}"
    archive = fetch_artifact(github, run, f"mldb-{name}", _ARCHIVE_BYTES)
    claims, folder = None, scratch / name
    try:
        if archive is not None:
            unpack_artifact(archive, folder, Caps())
            claims = Claims.of(folder)
            number = choose_pull(every, claims.number).number
            judged = [pull for pull in judged if pull.number == number]
    except UserError as error:
        refused = _said(told.name, run, _Found(_REFUSED, [], [str(error)]))
        return [(pull, refused) for pull in judged]
    if not judged:
        return []
    shared = {pull.number: shared_commit(github, pull) for pull in judged}
    wanted = [run.head_sha, *shared.values(), *(pull.base.sha for pull in every)]
    clone = _fetched(github.repository, wanted, scratch / "clone", token)
    others = [pull for pull in every if pull not in pulls[1]]
    said = []
    for pull in judged:
        try:
            found = _found(clone, shared[pull.number], pull, run, told, claims, folder)
        except UserError as error:
            found = _Found(_REFUSED, [], [str(error)])
        said.append((pull, _said(told.name, run, found, _unproven(clone, shared[pull.number], pull, others))))
    return said


def _fetched(repository: str, commits: Sequence[str], clone: Path, token: str) -> Path:
    """A bare clone with these commits alone; nothing of them is executed."""
    from bench.runs import git

    address = f"{runner_variable('GITHUB_SERVER_URL')}/{repository}"
    use_token(token, address)
    clone.mkdir()
    git(clone, "init", "--quiet", "--bare")
    wanted = sorted(set(commits))
    git(clone, "-c", "protocol.allow=never", "-c", "protocol.https.allow=always", "-c", "protocol.http.allow=always",
        "fetch", "--quiet", "--no-tags", "--depth=1", address, *wanted)  # fmt: skip
    return clone


def _found(
    clone: Path, shared: str, pull: Pull, run: WorkflowRun, told: CommentInputs, claims: Claims | None, folder: Path
) -> _Found:
    """The verdict, worked out anew; raises `UserError` for what an artifact claims wrongly."""
    from bench.base.install import find_data_folders
    from bench.runs import gate_verdict, open_gate, require_current_rules

    require_current_rules(clone, shared, pull.base.sha, told.experiment)
    gate = open_gate(clone, shared, run.head_sha, told.experiment, folder.with_name("commits"))
    notes = [f"base {shared[:12]}, head {run.head_sha[:12]}, attempt {run.run_attempt}"]
    if claims is not None:
        claims.require(base=shared, head=run.head_sha, number=pull.number, run=folder.name)
    if gate is None:
        found = _Found(NOT_GATED, [], [*notes, f"the base has no {told.experiment}"])
    elif gate.unchanged:
        found = _Found(UNCHANGED, [], [*notes, "the agent's folder is the same in both"])
    elif claims is None:
        ended = f"the gate ended with {run.conclusion or 'nothing'}, and left no records; its log says why"
        return _Found(NO_VERDICT, [], [*notes, ended])
    else:
        sandboxes = ("docker", "bubblewrap") if told.sandbox == "auto" else (told.sandbox,)
        url, times = f"{own_repository()}/actions/runs/{run.id}", (run.run_started_at, run.updated_at)
        records = gate.checked_records(folder, find_data_folders(), sandboxes, url, times)
        found = _Found(gate_verdict(records) or NO_VERDICT, records, notes)
    if claims is not None:
        claims.require(verdict=found.verdict)
    return found


def _unproven(clone: Path, shared: str, pull: Pull, others: Sequence[Pull]) -> list[str]:
    """Why the records prove little: whoever changes the workflows decides what the gate's job did.

    What runs is the merge of head with a base branch. That of `pull` is the owners'; those of `others`, which have the
    same head and are not judged, are anyone's, and any of these may be what ran.
    """
    from bench.runs import changed_paths

    notes = []
    if changed := changed_paths(clone, shared, pull.head.sha, *_DECISIVE):
        notes.append(f"not proven: this pull request changes {', '.join(changed[:5])}, which decide what ran")
    for other in others:
        if changed := changed_paths(clone, pull.base.sha, other.base.sha, *_DECISIVE):
            where = f"{printable(other.base.ref)}, the base of #{other.number} with the same head"
            notes.append(f"not proven: {', '.join(changed[:5])} differ in {where}, and may have decided what ran")
    return notes


def _said(name: str, run: WorkflowRun, found: _Found, unproven: Sequence[str] = ()) -> Said:
    from bench.github import MOST_BYTES, Said
    from bench.report import render_gate

    conclusion = CONCLUSIONS.get(found.verdict, "failure")
    if unproven and conclusion == "success":
        conclusion = "neutral"
    title = f"{found.verdict}: {found.notes[0]}"[:200] if found.verdict == _REFUSED else found.verdict
    body = render_gate(found.verdict, found.records, [*unproven, *found.notes], MOST_BYTES - 1000)
    body += f"\n[The run]({run.html_url}) · the records were checked again in a job of their own.\n"
    loud = conclusion == "failure" or found.verdict == "improvement"
    return Said(f"ml-dev-bench {name}", title, body, conclusion, loud)
