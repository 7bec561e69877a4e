"""`ml-dev-bench action compare` and `comment`: the gate of a pull request, and what is said of it from another job."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click
from pydantic import Field, ValidationError

from bench.base.errors import EXIT_FAILED, UserError
from bench.base.files import write_atomic
from bench.base.model import Model, explain
from bench.base.text import counted
from bench.cli.action_inputs import (
    Words,
    annotated,
    nothing_left,
    own_repository,
    read_inputs,
    runner_variable,
    use_token,
)
from bench.cli.options import interrupt_on_sigterm
from bench.formats.record import Name
from bench.github import add_summary, annotate_error, annotate_warning, commands_stopped, set_outputs

if TYPE_CHECKING:
    from bench.formats.record import Record
    from bench.github import Conclusion, Event, GitHubApi, Pull, Said, WorkflowRun
    from bench.runs import Claims

RULES = ".github/mldb/gate.yaml"
WORKFLOWS = ".github/workflows"
_NOT_GATED, _UNCHANGED, _NO_VERDICT, _REFUSED = "not gated", "unchanged", "no verdict", "refused"
_EXIT_OPEN = 3
_ARCHIVE_BYTES = 256 << 20
Sandbox = Literal["auto", "docker", "bubblewrap", "process"]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
_CONCLUSIONS: dict[str, Conclusion] = {
    "improvement": "success",
    "no drop": "success",
    _UNCHANGED: "success",
    _NOT_GATED: "neutral",
    "undecided": "neutral",
}
"""Of a Check by the verdict; any other is a failure."""


class _Common(Model):
    """What both jobs of a gate are told."""

    name: Name = "gate"
    experiment: str = RULES
    sandbox: Sandbox = "auto"


class CompareInputs(_Common):
    """The inputs of the step action `compare`."""

    base: Commit | None = None
    head: Commit | None = None
    pull_request: int | None = Field(None, alias="pull-request", ge=1)
    jobs: int = Field(1, ge=1, le=256)
    fail_on: Words = Field(["regression"], alias="fail-on")
    records: Path | None = None
    results_repository: str = Field("", alias="results-repository")
    results_branch: str = Field("mldb-results", alias="results-branch")


class CommentInputs(_Common):
    """The inputs of the step action `comment`."""

    actor: str = "github-actions[bot]"


@click.command()
@annotated
def compare() -> None:
    """Compare two commits of an agent in turns, by the rules of the first; the exit status is the required check.

    With `records`, a run that is there already is compared: its two arms, or, of one arm, with what is stored of the
    base. The latter is not interleaved and never fails the job.
    """
    told = read_inputs(CompareInputs)
    if told.records is not None:
        _compare_records(told, told.records)
        return
    if told.base is None or told.head is None:
        raise UserError("are not given", where="base, head", remedy="call this from an event `pull_request`")
    folder, claims, records, notes = _run_gate(told, told.base, told.head)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "gate.json", claims.model_dump_json(by_alias=True, indent=1).encode() + b"\n")
    outputs = {"run": folder.name, "records": str(folder), "artifact": f"mldb-{folder.name}"}
    sys.exit(_tell(claims.verdict, records, notes, outputs, told.fail_on))


def _run_gate(told: CompareInputs, tip: str, head: str) -> tuple[Path, Claims, list[Record], list[str]]:
    """Run both commits in turns until that decides; the run's folder, what is claimed, its records, and remarks."""
    from bench.base.install import find_data_folders
    from bench.cli.reporter import Reporter
    from bench.cli.run import open_sandbox, tell_records
    from bench.formats.plan import RunLimits
    from bench.runs import (
        Arms,
        Claims,
        Options,
        close_drawn,
        gate_verdict,
        merge_base,
        open_gate,
        plan_and_run,
        require_current_rules,
    )

    given = os.environ.pop("MLDB_SEED_SECRET", "").strip()
    place, name = Path(runner_variable("RUNNER_TEMP")) / "ml-dev-bench" / "gates", _run_name(told.name)
    repository = Path(runner_variable("GITHUB_WORKSPACE"))
    base = merge_base(repository, tip, head)
    require_current_rules(repository, base, tip, told.experiment)
    gate = open_gate(repository, base, head, told.experiment, place / f"{name}-commits")
    claim = partial(Claims, number=told.pull_request, base=base, head=head, run=name)
    notes = [f"base {base[:12]}, head {head[:12]}"]
    if gate is None:
        return place / name, claim(verdict=_NOT_GATED), [], [*notes, f"the base has no {told.experiment}"]
    if gate.unchanged:
        return place / name, claim(verdict=_UNCHANGED), [], [*notes, "the agent's folder is the same in both"]
    interrupt_on_sigterm()
    how = Options(
        jobs=told.jobs,
        run_limits=RunLimits(cost_usd=gate.rules.budget.usd),
        seed_secret=None if given in ("", "none") else given,
    )
    with nothing_left(), commands_stopped(), Reporter() as reporter:
        opened, arms = partial(open_sandbox, told.sandbox), Arms(str(gate.base.file), until_decided=True)
        _, records = plan_and_run(gate.request, place / name, find_data_folders(), opened, how, reporter, arms)
        tell_records(place / name, records)
    close_drawn(place / name)
    if few := _too_few(records):
        annotate_warning(few)
    return place / name, claim(verdict=gate_verdict(records) or _NO_VERDICT), records, [*notes, *([few] if few else [])]


def _too_few(records: Sequence[Record]) -> str:
    """Why the gate could never be red; empty where it could."""
    design = records[0].provenance.sequential if records else None
    if design is None or 0.5**design.cases < max(design.boundaries):
        return ""
    return f"too few: {counted(design.cases, 'case')}; not even a drop in all of them would be a regression; take more"


def _compare_records(told: CompareInputs, folder: Path) -> None:
    """Compare a run that is there: by its arms, or with stored records of the base, which decides nothing."""
    from bench.cli.compare_text import as_text
    from bench.cli.stored import stored_records
    from bench.formats.run_folder import RunFolder
    from bench.stats import Filters, choose_arm, compare_records, sequential_state

    records = RunFolder(folder).records()
    state = sequential_state(records)
    if {record.arm for record in records} == {"base", "head"}:
        one, other = (choose_arm(f"{folder}:{arm}", lambda *_: (), Filters()) for arm in ("base", "head"))
        answer = compare_records(one.records, other.records)
        verdict = answer.verdict if state is None else state.verdict or _NO_VERDICT
        notes = as_text(one, other, answer).splitlines()[1:]
        sys.exit(_tell(verdict, records, notes, {"run": folder.name}, told.fail_on))
    if told.base is None:
        raise UserError("is not given", where="base", remedy="name the commit whose stored records are the base")
    repository = told.results_repository or own_repository()
    use_token(os.environ.pop("MLDB_TOKEN", ""), repository)
    with stored_records(repository, told.results_branch) as stored:
        other = choose_arm(str(folder), stored, Filters())
        one = choose_arm(f"agent:{other.entrant.agent}@{told.base}", stored, Filters())
    answer = compare_records(one.records, other.records)
    notes = ["not interleaved: base and head did not run in turns, so this blocks nothing"]
    notes += as_text(one, other, answer).splitlines()[1:]
    _tell(f"not interleaved: {answer.verdict}", [], notes, {"run": folder.name}, ())


def _tell(
    verdict: str, records: Sequence[Record], notes: Sequence[str], outputs: dict[str, str], fail_on: Sequence[str]
) -> int:
    """Outputs, summary and annotation; returns the exit status: 1 for what it is to fail on, 3 without a verdict."""
    from bench.github import MOST_BYTES
    from bench.report import look_line, render_gate
    from bench.stats import sequential_state

    set_outputs({**outputs, "verdict": verdict})
    add_summary(render_gate(verdict, records, [note for note in notes if note.strip()], MOST_BYTES))
    state = sequential_state(records)
    why = [look_line(look, state.design) for look in state.looks[-1:]] if state is not None else []
    said = "; ".join([f"gate: {verdict}", *notes[:1], *why, *([state.waits_for] if state and state.waits_for else [])])
    if verdict in fail_on:
        annotate_error(said)
        return EXIT_FAILED
    if verdict in (_NO_VERDICT, "not comparable"):
        annotate_error(said)
        return _EXIT_OPEN
    tell = click.echo if _CONCLUSIONS.get(verdict) == "success" else annotate_warning
    tell(said)
    return 0


def _run_name(name: str) -> str:
    return f"{name}-{runner_variable('GITHUB_RUN_ID')}-{os.environ.get('GITHUB_RUN_ATTEMPT') or '1'}"


@click.command()
@annotated
def comment() -> None:
    """Check the records of a finished gate as untrusted data, and tell its pull request and commit what they say."""
    from bench.github import open_api, put_check, put_comment

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
        found = _examined(github, run, told, Path(scratch), token)
        if found is None:
            click.echo(f"nothing to say: no open pull request has the head {run.head_sha[:12]} by now")
            return
        pull, said = found
        click.echo(put_check(github, run, said))
        click.echo(put_comment(github, pull, run, said, told.actor))
    set_outputs({"verdict": said.title, "conclusion": said.conclusion})
    if said.title.startswith(_REFUSED):
        annotate_error(said.title)
        sys.exit(EXIT_FAILED)


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
    github: GitHubApi, run: WorkflowRun, told: CommentInputs, scratch: Path, token: str
) -> tuple[Pull, Said] | None:
    """The pull request and what is to be said to it; None where no open one has this head any more."""
    from bench.github import choose_pull, fetch_artifact, find_pulls, shared_commit
    from bench.runs import Claims
    from bench.store import Caps, unpack_artifact

    pulls = find_pulls(github, run)
    if not pulls:
        return None
    name = f"{told.name}-{run.id}-{run.run_attempt}"
    archive = fetch_artifact(github, run, f"mldb-{name}", _ARCHIVE_BYTES)
    pull, folder = pulls[0], scratch / name
    try:
        claims = None
        if archive is not None:
            unpack_artifact(archive, folder, Caps())
            claims = Claims.of(folder)
            pull = choose_pull(pulls, claims.number)
    except UserError as error:
        return pull, _said(told.name, run, _Found(_REFUSED, [], [str(error)]))
    shared = shared_commit(github, pull)
    clone = _fetched(github.repository, [shared, run.head_sha, pull.base.sha], scratch / "clone", token)
    try:
        found = _found(clone, shared, pull, run, told, claims, folder)
    except UserError as error:
        found = _Found(_REFUSED, [], [str(error)])
    return pull, _said(told.name, run, found, _unproven(clone, shared, run))


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
        found = _Found(_NOT_GATED, [], [*notes, f"the base has no {told.experiment}"])
    elif gate.unchanged:
        found = _Found(_UNCHANGED, [], [*notes, "the agent's folder is the same in both"])
    elif claims is None:
        ended = f"the gate ended with {run.conclusion or 'nothing'}, and left no records; its log says why"
        return _Found(_NO_VERDICT, [], [*notes, ended])
    else:
        sandboxes = ("docker", "bubblewrap") if told.sandbox == "auto" else (told.sandbox,)
        url, times = f"{own_repository()}/actions/runs/{run.id}", (run.run_started_at, run.updated_at)
        records = gate.checked_records(folder, find_data_folders(), sandboxes, url, times)
        found = _Found(gate_verdict(records) or _NO_VERDICT, records, notes)
    if claims is not None:
        claims.require(verdict=found.verdict)
    return found


def _unproven(clone: Path, shared: str, run: WorkflowRun) -> list[str]:
    """Why the records prove little: whoever changes the workflows decides what the gate's job did."""
    from bench.runs import changed_paths

    changed = changed_paths(clone, shared, run.head_sha, WORKFLOWS)
    return [f"not proven: this pull request changes {', '.join(changed[:5])}, which decide what ran"] if changed else []


def _said(name: str, run: WorkflowRun, found: _Found, unproven: Sequence[str] = ()) -> Said:
    from bench.github import MOST_BYTES, Said
    from bench.report import render_gate

    conclusion = _CONCLUSIONS.get(found.verdict, "failure")
    if unproven and conclusion == "success":
        conclusion = "neutral"
    title = f"{found.verdict}: {found.notes[0]}"[:200] if found.verdict == _REFUSED else found.verdict
    body = render_gate(found.verdict, found.records, [*unproven, *found.notes], MOST_BYTES - 1000)
    body += f"\n[The run]({run.html_url}) · the records were checked again in a job of their own.\n"
    loud = conclusion == "failure" or found.verdict == "improvement"
    return Said(f"ml-dev-bench {name}", title, body, conclusion, loud)
