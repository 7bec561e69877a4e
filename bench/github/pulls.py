"""What a gate says to a pull request, from a job that the gate's own run cannot reach: one comment and one Check.

Which pull request and which commit comes from the event `workflow_run` and from GitHub's API, never from an artifact.
An older run never replaces what a newer one has said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import Field

from bench.base.errors import UserError
from bench.github.rest import Answer, GitHubApi

BOT = "github-actions[bot]"
"""Who writes with the token of a workflow."""
MOST_BYTES = 60_000
"""Of a comment, and of a Check's text; GitHub takes 65,536 characters."""
Conclusion = Literal["success", "neutral", "failure"]
_MARKER = re.compile(r"\A<!-- ml-dev-bench:gate (\{[^\n]{0,500}\}) -->")
_EXTERNAL = re.compile(r"ml-dev-bench:([0-9]{1,19})-([0-9]{1,6})")
Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class Named(Answer):
    """A repository by its name."""

    full_name: str
    default_branch: str | None = None


class WorkflowRun(Answer):
    """The run that an event `workflow_run` tells of."""

    id: int = Field(ge=1)
    run_attempt: int = Field(ge=1)
    event: str
    conclusion: str | None = None
    head_sha: Sha
    head_branch: str | None = None
    head_repository: Named | None = None
    """None: it was deleted since."""
    run_started_at: str
    updated_at: str
    html_url: str

    @property
    def order(self) -> tuple[int, int]:
        """Later runs and attempts come after earlier ones."""
        return self.id, self.run_attempt


class Event(Answer):
    """An event `workflow_run`."""

    workflow_run: WorkflowRun
    repository: Named


class Branch(Answer):
    """What is read of a branch."""

    protected: bool


class Side(Answer):
    """One end of a pull request."""

    ref: str
    sha: Sha
    repo: Named | None = None


class Pull(Answer):
    """What is read of a pull request."""

    number: int = Field(ge=1)
    state: str
    head: Side
    base: Side


class Shown(Answer):
    """A commit by its id."""

    sha: Sha


class Comparison(Answer):
    """What is read of a comparison of two commits."""

    merge_base_commit: Shown


class Login(Answer):
    """Who wrote something."""

    login: str


class Comment(Answer):
    """What is read of a comment."""

    id: int
    body: str | None = None
    user: Login | None = None


class CheckOutput(Answer):
    """What a Check shows."""

    title: str | None = None
    summary: str | None = None
    text: str | None = None


class CheckRun(Answer):
    """What is read of a Check."""

    id: int
    external_id: str | None = None
    conclusion: str | None = None
    output: CheckOutput = CheckOutput()


class Artifact(Answer):
    """What is read of an artifact."""

    id: int
    name: str
    size_in_bytes: int = Field(ge=0)
    expired: bool


@dataclass(frozen=True)
class Said:
    """What is to be shown."""

    name: str
    """Tells the gates of a repository apart; with the base branch, the name of the Check."""
    title: str
    """One line."""
    body: str
    """Markdown; whatever comes from records must be escaped already."""
    conclusion: Conclusion
    loud: bool
    """A comment is made for it; otherwise one that is there is brought up to date."""


def find_pulls(github: GitHubApi, run: WorkflowRun) -> list[Pull]:
    """The open pull requests of which `run` tested the current head: several where one branch is to go into several.

    By head repository, branch and commit: for a fork, the event names no pull request.
    """
    if run.head_repository is None or not run.head_branch:
        return []
    owner = run.head_repository.full_name.partition("/")[0]
    listed = github.pages(Pull, "/pulls", state="open", head=f"{owner}:{run.head_branch}")
    return [pull for pull in listed if _is_of(pull, run, github.repository)]


def is_protected(github: GitHubApi, branch: str) -> bool:
    """Do the repository's rules protect this branch of it?"""
    return github.get(Branch, f"/branches/{quote(branch, safe='')}").protected


def choose_pull(pulls: Sequence[Pull], claimed: int | None) -> Pull:
    """That of `pulls` which has the number `claimed`, which can choose nothing else; raises `UserError`."""
    found = next((pull for pull in pulls if pull.number == claimed), None)
    if found is None:
        numbers = ", ".join(f"#{pull.number}" for pull in pulls)
        raise UserError(f"claims pull request #{claimed}, and its run is of {numbers}", where="gate.json")
    return found


def _is_of(pull: Pull, run: WorkflowRun, repository: str) -> bool:
    source, target = pull.head.repo, pull.base.repo
    return (
        pull.state == "open"
        and pull.head.sha == run.head_sha
        and pull.head.ref == run.head_branch
        and source is not None
        and run.head_repository is not None
        and source.full_name.lower() == run.head_repository.full_name.lower()
        and target is not None
        and target.full_name.lower() == repository.lower()
    )


def shared_commit(github: GitHubApi, pull: Pull) -> str:
    """The commit at which the pull request left its base branch."""
    return github.get(Comparison, f"/compare/{pull.base.sha}...{pull.head.sha}").merge_base_commit.sha


def fetch_artifact(github: GitHubApi, run: WorkflowRun, name: str, most: int) -> bytes | None:
    """The archive of the run's artifact `name`, of at most `most` bytes; None where there is none."""
    every = github.pages(Artifact, f"/actions/runs/{run.id}/artifacts", "artifacts", name=name)
    found = [it for it in every if it.name == name]
    if not found:
        return None
    if len(found) > 1 or found[0].expired:
        fault = f"there are {len(found)} of this name" if len(found) > 1 else "has expired"
        raise UserError(fault, where=f"artifact {name}", remedy="run the gate again")
    if found[0].size_in_bytes > most:
        raise UserError(f"has {found[0].size_in_bytes} bytes, and {most} are the most", where=f"artifact {name}")
    return github.download(f"/actions/artifacts/{found[0].id}/zip", most)


def put_check(github: GitHubApi, pull: Pull, run: WorkflowRun, said: Said) -> str:
    """Show `said` as the Check of the run's head commit; one line about what was done.

    A commit may be the head of several pull requests, and GitHub requires a Check by its name: each base branch has
    one of its own, so that what is said against one branch never replaces what was said against another.
    """
    path, name = f"/commits/{run.head_sha}/check-runs", f"{said.name} ({pull.base.ref})"
    listed = github.pages(CheckRun, path, "check_runs", check_name=name, filter="all")
    own = [(order, it) for it in listed if (order := _order_of(it)) is not None]
    output = {"title": said.title, "summary": said.body}
    facts: dict[str, object] = {
        "name": name,
        "status": "completed",
        "conclusion": said.conclusion,
        "external_id": f"ml-dev-bench:{run.id}-{run.run_attempt}",
        "details_url": run.html_url,
        "output": output,
    }
    if not own:
        made = github.send("POST", CheckRun, "/check-runs", {**facts, "head_sha": run.head_sha})
        return f"made Check {made.id}: {said.conclusion}"
    order, latest = max(own, key=lambda pair: (pair[0], pair[1].id))
    if order > run.order:
        return f"left Check {latest.id}: it is of a later run"
    shown = (latest.output.title, latest.output.summary)
    if (order, latest.conclusion, *shown) == (run.order, said.conclusion, said.title, said.body):
        return f"left Check {latest.id}: nothing has changed"
    github.send("PATCH", CheckRun, f"/check-runs/{latest.id}", facts)
    return f"updated Check {latest.id}: {said.conclusion}"


def _order_of(check: CheckRun) -> tuple[int, int] | None:
    match = _EXTERNAL.fullmatch(check.external_id or "")
    return (int(match[1]), int(match[2])) if match else None


def put_comment(github: GitHubApi, pull: Pull, run: WorkflowRun, said: Said, actor: str = BOT) -> str:
    """Show `said` in the one comment of this gate, made by `actor`; one line about what was done.

    Nothing is written where the pull request has another head by now, or a later run has written.
    """
    if github.get(Pull, f"/pulls/{pull.number}").head.sha != run.head_sha:
        return f"left #{pull.number}: it has another head by now"
    about = json.dumps({"name": said.name, "head": run.head_sha, "run": run.id, "attempt": run.run_attempt})
    # `-->` in a value would end the HTML comment.
    hidden = about.replace("<", "\\u003c").replace(">", "\\u003e").replace("--", "-\\u002d")
    body = f"<!-- ml-dev-bench:gate {hidden} -->\n{said.body}"
    comments = github.pages(Comment, f"/issues/{pull.number}/comments")
    own = [
        (facts, it)
        for it in comments
        if it.user is not None and it.user.login == actor and (facts := _marked(it)) and facts["name"] == said.name
    ]
    if not own:
        if not said.loud:
            return f"left #{pull.number}: nothing to say"
        github.send("POST", Comment, f"/issues/{pull.number}/comments", {"body": body})
        return f"commented on #{pull.number}"
    facts, oldest = own[0]
    if facts["head"] == run.head_sha and (facts["run"], facts["attempt"]) > run.order:
        return f"left comment {oldest.id}: it is of a later run"
    if (oldest.body or "").replace("\r\n", "\n").rstrip() == body.rstrip():
        return f"left comment {oldest.id}: nothing has changed"
    github.send("PATCH", Comment, f"/issues/comments/{oldest.id}", {"body": body})
    return f"updated comment {oldest.id}"


def _marked(comment: Comment) -> dict[str, str | int] | None:
    """What the marker of a comment says; None where it is not one of ours."""
    match = _MARKER.match(comment.body or "")
    try:
        facts = json.loads(match[1]) if match else None
    except ValueError:
        return None
    kinds = {"name": str, "head": str, "run": int, "attempt": int}
    if not isinstance(facts, dict) or not all(isinstance(facts.get(name), kind) for name, kind in kinds.items()):
        return None
    return facts
