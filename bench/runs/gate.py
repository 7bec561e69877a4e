"""The gate of a pull request: two commits of an agent as two arms, by the rules of the commit that they share.

What is compared, and how, comes from the base: suite, cases, models, trials and budget. From head comes nothing but the
agent's folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from bench.base.errors import UserError
from bench.base.install import DataFolders
from bench.base.model import Model, parse_json
from bench.formats.agent import Agent, load_agent
from bench.formats.plan import RunPlan
from bench.formats.record import Record
from bench.formats.run_folder import PLAN
from bench.plan import Experiment, Request, load_experiment, make_arms
from bench.runs.rounds import design_of, rounds_of
from bench.stats import sequential_state
from bench.store import Artifact, Caps, PlanCheck, collect_bundle

CLAIMS = "gate.json"
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
_SECONDS = 300
_PLAN_BYTES = 16 << 20
_SLACK = timedelta(minutes=10)
_HISTORY = "give actions/checkout `fetch-depth: 0`"
_OF_THE_RUN = ("created", "sandbox", "seed_secret", "experiment", "experiment_cells", "seeds_shared")
"""Fields of run.json that no one can know beforehand; they are bounded instead."""
# Hooks, filters and programs that a repository's settings name have no part in reading two commits of it.
_SAFE = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
_OPTIONS = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "safe.directory=*", "gc.auto=0")


class Claims(Model):
    """What a gate says of itself, beside its records: `gate.json`. It is believed by no one."""

    schema_: Literal[1] = Field(1, alias="schema")
    number: int | None
    """Of the pull request."""
    base: Commit
    """Of the arm `base`: where head left its base branch."""
    head: Commit
    run: str
    verdict: str

    @classmethod
    def of(cls, folder: Path) -> Claims:
        """Those of an unpacked artifact; raises `UserError`."""
        return parse_json(_content(folder, CLAIMS, 10_000), cls, where=CLAIMS)

    def require(self, **facts: object) -> None:
        """Raise `UserError` where a field claims something else than what is so."""
        for name, fact in facts.items():
            if (said := getattr(self, name)) != fact:
                raise UserError(f"field `{name}` claims {said!r}, and it is {fact!r}", where=CLAIMS)


@dataclass(frozen=True)
class Gate:
    """Two commits of one repository, checked out, and the rules of the first."""

    base: Agent
    head: Agent
    rules: Experiment

    @property
    def unchanged(self) -> bool:
        """Head's agent is the base's: there is nothing to compare."""
        return self.base.digest == self.head.digest

    @property
    def request(self) -> Request:
        """The cells of head, by the rules of the base; without rules on models those of the base's agent."""
        rules = self.rules
        models = rules.models or [f"{role}={name}" for role, name in sorted(self.base.spec.models.items())]
        if not rules.models and self.head.spec.models.keys() != self.base.spec.models.keys():
            raise UserError(
                f"head has the roles {sorted(self.head.spec.models)}, base {sorted(self.base.spec.models)}",
                where=self.head.file.name,
                remedy="models come from the base, so roles must be the same in both",
            )
        profile = rules.profiles[0] if rules.profiles else None
        return Request(rules.suites[0], [str(self.head.file)], rules.cases, models, rules.trials, profile)

    def plan(self, run: str, folders: DataFolders, sandbox: str) -> RunPlan:
        """What run.json of this gate says, the facts of a single run apart; raises `UserError`."""
        request = replace(self.request, trials=rounds_of(self.rules.trials))
        cells = make_arms(request, str(self.base.file), run, folders)
        return cells.plan(sandbox).model_copy(update={"sequential": design_of(cells.cells)})

    def checked_records(
        self, folder: Path, folders: DataFolders, sandboxes: Sequence[str], run_url: str, times: tuple[str, str]
    ) -> list[Record]:
        """The records of an unpacked artifact, each checked against the plan that the two commits make.

        times: start and end of the job, by GitHub's clock. Raises `UserError` for the first that is not true.
        """
        claimed = parse_json(_content(folder, PLAN, _PLAN_BYTES), RunPlan, where=PLAN)
        if claimed.sandbox not in sandboxes:
            fault = f"ran in the sandbox {claimed.sandbox!r}, and not in {' or '.join(sandboxes)}"
            raise UserError(fault, where=PLAN, remedy="give gate and comment the same input `sandbox`")
        plan = agreed_plan(self.plan(folder.name, folders, claimed.sandbox), claimed, *times)
        collected = collect_bundle([Artifact(folder.name, folder)], PlanCheck.to(plan, None, run_url), Caps())
        if collected.refused:
            others = len(collected.refused) + collected.untold - 1
            raise UserError(f"{collected.refused[0]}{f' (and {others} more)' if others else ''}", where="records")
        return [taken.record for taken in collected.taken]


def gate_verdict(records: Sequence[Record]) -> str | None:
    """What the looks at the records of a gate have decided; None: there is no verdict."""
    state = sequential_state(records)
    return state.verdict if state is not None else None


def open_gate(repository: Path, base: str, head: str, rules: str, place: Path) -> Gate | None:
    """The gate of the commits `base` (an ancestor of `head`) and `head`, checked out below `place`, which is made anew.

    rules: path of the gate's experiment file; None where the base does not have it. Raises `UserError`.
    """
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    git(repository, "worktree", "prune")
    folders = {}
    for name, commit in (("base", base), ("head", head)):
        folders[name] = place / name
        git(repository, "worktree", "add", "--quiet", "--detach", "--force", str(folders[name]), commit)
    if not os.path.lexists(folders["base"] / rules):
        return None
    found = load_experiment(_within(folders["base"], rules), [])
    _require_gate(found, rules)
    base_agent, head_agent = (load_agent(_within(folders[name], found.agents[0])) for name in ("base", "head"))
    _require_same_submodules(
        repository, base, head, found.agents[0], [*base_agent.spec.shared, *head_agent.spec.shared]
    )
    return Gate(base_agent, head_agent, found)


def _require_same_submodules(repository: Path, base: str, head: str, agent: str, shared: Sequence[str]) -> None:
    """Raise `UserError` where another repository within the agent's folders changes: none is checked out to be seen."""
    folder = os.path.dirname(agent)
    places = [os.path.normpath(os.path.join(folder, place)) for place in (".", *shared)]
    listed = (git(repository, "ls-tree", "-r", commit, "--", *places).splitlines() for commit in (base, head))
    one, other = ({line for line in lines if line.startswith("160000 ")} for lines in listed)
    if changed := sorted(line.partition("\t")[2] for line in one ^ other):
        fault = f"{changed[0][:200]} is a submodule that head changes, and a gate does not check it out"
        raise UserError(fault, where=agent, remedy="keep the agent's files in its own repository")


def merge_base(repository: Path, base: str, head: str) -> str:
    """The commit at which `head` left the branch that is at `base`; raises `UserError`."""
    for commit in (base, head):
        if git(repository, "cat-file", "-t", commit, fails="") != "commit":
            raise UserError(f"commit {commit[:12]} is not in this clone", where=repository, remedy=_HISTORY)
    found = git(repository, "merge-base", base, head, fails="")
    if not re.fullmatch("[0-9a-f]{40}", found):
        raise UserError(f"{base[:12]} and {head[:12]} share no commit in this clone", where=repository, remedy=_HISTORY)
    return found


def require_current_rules(repository: Path, shared: str, base: str, folder: str) -> None:
    """Raise `UserError` where the base branch has changed the rules in `folder` since head left it.

    Otherwise a pull request from an old commit could choose the rules that were in force then.
    """
    if git(repository, "diff", "--name-only", "--no-renames", shared, base, "--", folder):
        raise UserError(
            f"the base branch has changed them since {shared[:12]}, where this pull request left it",
            where=folder,
            remedy="merge the base branch into this pull request, or rebase it",
        )


def changed_paths(repository: Path, base: str, head: str, *folders: str) -> list[str]:
    """Files below `folders` that differ between two commits."""
    return git(repository, "diff", "--name-only", "--no-renames", base, head, "--", *folders).splitlines()


def agreed_plan(own: RunPlan, claimed: RunPlan, started: str, ended: str) -> RunPlan:
    """`own` with the facts of the run that `claimed` says, which must agree in everything else; raises `UserError`.

    started, ended: of the job, by GitHub's clock.
    """
    one, other = _comparable(own), _comparable(claimed)
    if differing := sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name)):
        raise UserError(
            f"field `{differing[0]}` is not what base and head commit make of it",
            where="run.json",
            remedy="gate and comment must use the same version of ml-dev-bench, and the artifact be of this run",
        )
    first, created, last = (datetime.fromisoformat(text) for text in (started, claimed.created, ended))
    if not first - _SLACK <= created <= last + _SLACK:
        raise UserError(f"made at {claimed.created}, and the job ran from {started} to {ended}", where="run.json")
    if not claimed.seed_secret or claimed.experiment_cells < len(own.cells):
        raise UserError("its seeds are public: an agent can compute the data", where="run.json")
    return own.model_copy(update={name: getattr(claimed, name) for name in _OF_THE_RUN})


def git(repository: Path, *arguments: str, fails: str | None = None) -> str:
    """Standard output of git; `fails`: what to return where it fails, None to raise `UserError`."""
    program = shutil.which("git")
    if program is None:
        raise UserError("is not installed", where="git", remedy="install it")
    options = [part for option in _OPTIONS for part in ("-c", option)]
    command = [program, *options, "-C", str(repository), *arguments]
    env = {**os.environ, **_SAFE}
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, env=env, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"git {arguments[0]}: no end within {_SECONDS} s", where=repository) from None
    if done.returncode and fails is not None:
        return fails
    if done.returncode:
        said = (done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise UserError(f"git {arguments[0]}: {said}", where=repository, remedy=_HISTORY)
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def _content(folder: Path, name: str, most: int) -> bytes:
    """A file of the unpacked artifact, which holds plain files alone."""
    path = folder / name
    if not path.is_file() or path.stat().st_size > most:
        raise UserError(f"is missing, or has more than {most} bytes", where=name)
    return path.read_bytes()


def _comparable(plan: RunPlan) -> Mapping[str, object]:
    """All that two plans of the same gate have in common, by field; agents are known by digest, not by path."""
    plain = plan.model_dump(by_alias=True, exclude=set(_OF_THE_RUN))
    for cell in plain["cells"]:
        del cell["agent"]
    return plain


def _within(folder: Path, name: str) -> Path:
    """A file of a commit, which may not lead out of it: whoever wrote head must not choose what else is read."""
    path = folder / name
    inside = os.path.normpath(path)
    if os.path.realpath(path) != os.path.join(os.path.realpath(folder), os.path.relpath(inside, folder)):
        raise UserError(
            "is a link, or outside the repository", where=name, remedy="make it a plain file of the repository"
        )
    return Path(inside)


def _require_gate(rules: Experiment, where: str) -> None:
    """Raise `UserError` for an experiment that is more than one suite, one agent of this repository, one model."""
    faults = {
        "suites": len(rules.suites) != 1,
        "agents": len(rules.agents) != 1 or not rules.agents[0].endswith((".yaml", ".yml")),
        "models": len(rules.models) > 1,
        "profiles": len(rules.profiles) > 1,
        "settings": bool(rules.settings),
        "base": bool(rules.base),
        "mode": rules.mode != "full",
    }
    if wrong := [name for name, fault in faults.items() if fault]:
        raise UserError(
            f"field `{wrong[0]}` does not fit a gate",
            where=where,
            remedy="name one suite, one path of an agent.yaml of this repository, and at most one model and profile",
        )
