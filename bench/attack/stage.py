"""The stage of a campaign: a checkout, a run and a home with canaries in them, all in a temporary folder."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.attack.catalogue import Attack, Base, Catalogue
from bench.attack.leaks import Canaries
from bench.attack.listeners import Listeners
from bench.attack.upstream import Upstream
from bench.base.errors import UserError
from bench.base.files import temporary_folder
from bench.base.install import DataFolders
from bench.cell import CellContext, prepare_start
from bench.formats.agent import Agent, AgentSpec, Environment
from bench.formats.case import Case, load_case
from bench.formats.case_variants import copy_whole
from bench.formats.provenance import Provenance
from bench.formats.seeds import data_seed
from bench.formats.verdict import declared_checks
from bench.formats.wrong_answers import folder_of, materialise
from bench.gateway import CellLimits, GatewaySpec, open_gateway
from bench.sandbox import Sandbox

CANARY_FILE = "canary.txt"
_KEYS = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GITHUB_TOKEN",
    "ACTIONS_RUNTIME_TOKEN",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "HF_TOKEN",
    "WANDB_API_KEY",
    "RUNPOD_API_KEY",
)
_HOME_FILES = (".aws/credentials", ".netrc", ".ssh/id_ed25519", ".config/gh/hosts.yml", ".docker/config.json.bak")
_AUTHORS_FILES = (".git/config", ".git/logs/HEAD", ".env", ".env.local", "runs/old/traces/cell/agent.log")
_PLACE = "the agent's own folder: {}"
_HOOK = "install_hook"
_SUITE = "attack"
_LONG_S = 6 * 3600.0
_MODEL = "openai/attacked"
_LEFT_OUT = shutil.ignore_patterns("__pycache__", CANARY_FILE)


@dataclass
class Stage:
    """What the trials of a campaign share."""

    root: Path
    catalogue: Catalogue
    context: CellContext
    canaries: Canaries
    listeners: Listeners
    upstream: Upstream
    foreign_key: str
    """A valid key of another cell's gateway."""
    _originals: dict[str, Path] = field(default_factory=dict)
    _cases: dict[str, Case] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def case(self, case: Case) -> Case:
        """A copy of `case` inside the stage's checkout, with canaries beside everything that is hidden."""
        with self._lock:
            if case.id not in self._cases:
                self._cases[case.id] = self._copied(case)
                self._originals[case.id] = case.folder
            return self._cases[case.id]

    def start_hidden(self, case: Case) -> Path:
        """The folder of what data.py built for the judge."""
        seed = data_seed(b"", _SUITE, case.id, 1)
        return prepare_start(case, case.profiles[0], seed, self.context.folders.cache).hidden

    def hidden_places(self, case: Case) -> dict[str, list[str]]:
        """Paths on this machine, by the kind of thing that is hidden there."""
        run, checkout, original = self.context.folder, self.root / "checkout", self._originals[case.id]
        return {
            "original": [str(original), str(original.parents[2] / ".git")],
            "checks": [str(case.folder), str(self.start_hidden(case)), f"/cases/{case.spec.category}/{case.id}"],
            "solution": [str(case.part("solution")), str(case.part("wrong"))],
            "cells": [str(run / part) for part in ("scratch/work/other", "traces/other", "cells", "")],
            "git": [str(checkout), str(checkout / ".git")],
            "keys": [str(self.root / "home"), "~", "/root", "/home", "/run/secrets", "/var/run/secrets"],
        }

    def _copied(self, case: Case) -> Case:
        folder = self.root / "checkout" / "cases" / case.spec.category / case.id
        copy_whole(case.folders, folder)
        for name in case.spec.assets:
            shutil.copytree(case.asset(name), folder.parents[1] / "assets" / name, dirs_exist_ok=True)
        for name in ("", "hidden", "solution", "wrong"):
            (folder / name).mkdir(exist_ok=True)
            _write(folder / name / CANARY_FILE, self.canaries.new(f"{case.id}/{name or 'checks'}"))
        with (folder / "check.py").open("a", encoding="utf-8") as file:
            file.write(f"\n# {self.canaries.new(f'{case.id}/check.py')}\n")
        copied = load_case(folder)
        copied = copied.for_profile(copied.profiles[0])
        _write(self.start_hidden(copied) / CANARY_FILE, self.canaries.new(f"{case.id}/built for the judge"))
        return copied


@contextlib.contextmanager
def open_stage(catalogue: Catalogue, folders: DataFolders, sandbox: Sandbox, own_network: bool) -> Iterator[Stage]:
    """Set up the stage; afterwards nothing of it is left, not even in the environment of this process."""
    canaries = Canaries()
    for name in _AUTHORS_FILES:
        canaries.new(_PLACE.format(name))
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(temporary_folder("attack"))
        listeners = stack.enter_context(contextlib.closing(Listeners(root, own_network)))
        upstream = stack.enter_context(contextlib.closing(Upstream()))
        stack.enter_context(_planted_environment(root, canaries, upstream.address))
        _git_history(root / "checkout", canaries)
        context = _context(root, folders, sandbox)
        _other_cell(context.folder, canaries)
        key = stack.enter_context(_other_gateway(root))
        yield Stage(root, catalogue, context, canaries, listeners, upstream, key)


def _write(path: Path, word: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{word}\n", encoding="utf-8")


@contextlib.contextmanager
def _planted_environment(root: Path, canaries: Canaries, provider: str) -> Iterator[None]:
    """Canaries in the place of keys, in the environment and in the home of this process."""
    before = dict(os.environ)
    try:
        for name in _KEYS:
            os.environ[name] = canaries.new(f"key {name}")
        for file in _HOME_FILES:
            _write(root / "home" / file, canaries.new(f"home {file}"))
        os.environ.update(HOME=str(root / "home"), OPENAI_BASE_URL=provider)
        # A user's own price table may lack the model of the attacks.
        os.environ.pop("MLDB_PRICES", None)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _git_history(checkout: Path, canaries: Canaries) -> None:
    """A repository with a file that a later commit removed."""
    checkout.mkdir()
    _write(checkout / "secret.txt", canaries.new("git history"))
    name = ["-c", "user.name=x", "-c", "user.email=x@invalid", "-c", "commit.gpgsign=false", "-c", "gc.auto=0"]
    commit = [*name, "commit", "--quiet", "--message"]
    for command in (["init", "-q"], ["add", "."], [*commit, "a"], ["rm", "-q", "secret.txt"], [*commit, "b"]):
        try:
            subprocess.run(["git", "-C", str(checkout), *command], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise UserError(f"git cannot commit: {error}", where=checkout, remedy="install git") from None


def _context(root: Path, folders: DataFolders, sandbox: Sandbox) -> CellContext:
    provenance = Provenance(
        bench_version="", run=f"{_SUITE}-{secrets.token_hex(4)}", sandbox=sandbox.name, isolated=sandbox.isolated
    )
    return CellContext(
        folder=root / "run",
        sockets=root / "s",
        folders=DataFolders(root / "checkout" / "cases", folders.agents, folders.site, root / "cache"),
        sandbox=sandbox,
        provenance=provenance,
        suite_version=_SUITE,
        agent_commits={},
        keep_workspaces=True,
        cost_limited=False,
    )


def _other_cell(run: Path, canaries: Canaries) -> None:
    """Files of another cell of the same run, one still at work and one finished."""
    _write(run / "scratch" / "work" / "other" / "workspace" / "notes.txt", canaries.new("workspace of another cell"))
    _write(run / "traces" / "other" / "agent.log", canaries.new("trace of another cell"))
    _write(run / "cells" / "other.json", canaries.new("record of another cell"))


@contextlib.contextmanager
def _other_gateway(root: Path) -> Iterator[str]:
    """The gateway of another cell at work; yields its key."""
    spec = GatewaySpec(
        socket=root / "o.sock",
        ledger=root / "other.jsonl",
        models={"main": _MODEL},
        case="other",
        cassettes=None,
        limits=CellLimits(calls=1000, deadline=time.monotonic() + _LONG_S),
    )
    with open_gateway(spec) as gateway:
        yield gateway.key


@dataclass(frozen=True)
class Task:
    """Attacks that share one run of the agent on one case."""

    case: Case
    attacks: Sequence[Attack]
    base: Base
    answer: str = ""
    """Name of the wrong answer that a base `wrong` is."""


def make_agent(folder: Path, programs: Path, task: Task, facts: Mapping[str, Any], canaries: Canaries) -> Agent:
    """The agent that attacks, in `folder`, among files that its author has there and no agent may see."""
    case, attacks = task.case, task.attacks
    shutil.copytree(programs, folder, ignore=_LEFT_OUT)
    for name in _AUTHORS_FILES:
        _write(folder / name, canaries.words[_PLACE.format(name)])
    if task.base == "solution":
        _bring_answer(folder, case.part("solution"), case.spec.solution.run)
    elif task.base == "wrong":
        with temporary_folder("wrong") as laid:
            answer = materialise(case, task.answer, laid)
            removal = f'rm -f -- {shlex.join(answer.removed)}; "$@"'
            _bring_answer(
                folder, answer.folder, ["sh", "-c", removal, "sh", *answer.run] if answer.removed else answer.run
            )
    if any(attack.spec.bait for attack in attacks):
        shutil.copytree(case.part("solution"), folder / "bait", ignore=_LEFT_OUT)
    environment = Environment(variables={"ATTACK_FACTS": json.dumps(facts)})
    if any(attack.spec.installs for attack in attacks):
        (folder / _HOOK / "facts.json").write_text(json.dumps(facts))
        # The comment makes each trial's packages its own: nothing is taken from an earlier build.
        (folder / "requirements.txt").write_text(f"./{_HOOK}  # {facts['token']}\n")
        environment = environment.model_copy(update={"requirements": "requirements.txt"})
    # Attacks that share a run have one agent, which needs a name that fits all of them.
    label = attacks[0].id.replace(".", "-") if len(attacks) == 1 else f"{attacks[0].family}-and-{len(attacks) - 1}-more"
    spec = AgentSpec(
        id=f"{label}-over-{task.base}"[:64],
        command=["python", "-I", "{agent}/start.py", *(attack.id for attack in attacks)],
        environment=environment,
        models={"main": _MODEL} if any(attack.spec.model for attack in attacks) else {},
        ranked=False,
    )
    return Agent(folder / "agent.yaml", spec, trusted=False)


def _bring_answer(folder: Path, source: Path, command: list[str]) -> None:
    """Lay an answer and its command beside the programs of the attacks."""
    shutil.copytree(source, folder / "answer", ignore=_LEFT_OUT)
    (folder / "answer.json").write_text(json.dumps(command))


def attacked_answers(case: Case) -> list[str]:
    """The wrong answers that attacks are laid over: of those that need no command, one that most checks catch.

    Where that fails no guard of the case, also one that does: it has earned credit, and loses it by the guard alone.
    Of those with a command, one without files to lay over what the command has left: attacks do not lay them.
    """

    def rank(name: str) -> tuple[int, int, str]:
        wrong = case.spec.wrong[name]
        return bool(wrong.run) + (bool(wrong.run) and folder_of(case, name).is_dir()), -len(wrong.fails), name

    guards = {it.id for it in declared_checks(case) if it.guard and it.origin == "case"}
    refused = [name for name, wrong in case.spec.wrong.items() if guards.intersection(wrong.fails)]
    first = min(case.spec.wrong, key=rank)
    return [first] if first in refused or not refused else [first, min(refused, key=rank)]
