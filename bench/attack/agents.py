"""The attacking agent: a folder with the programs, and for some an answer or the solution beside them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.agent import Agent, AgentSpec, Environment
from bench.attack.catalogue import Attack, Base
from bench.attack.stage import CANARY_FILE
from bench.case import Case, Wrong

_MODEL = "openai/attacked"
_LEFT_OUT = shutil.ignore_patterns("__pycache__", CANARY_FILE)


def make_agent(
    folder: Path, programs: Path, attacks: Sequence[Attack], case: Case, base: Base, facts: Mapping[str, Any]
) -> Agent:
    """The agent that carries out `attacks`, in `folder`."""
    shutil.copytree(programs, folder, ignore=_LEFT_OUT)
    name, wrong = chosen_wrong(case)
    answers = {
        "wrong": (case.part("wrong") / name, wrong.run),
        "solution": (case.part("solution"), case.spec.solution.run),
    }
    if base in answers:
        source, command = answers[base]
        shutil.copytree(source, folder / "answer", ignore=_LEFT_OUT)
        (folder / "answer.json").write_text(json.dumps(command))
    if any(attack.spec.bait for attack in attacks):
        shutil.copytree(case.part("solution"), folder / "bait", ignore=_LEFT_OUT)
    # Not the slug of one attack alone: what shares a run has one name.
    label = attacks[0].id.replace(".", "-") if len(attacks) == 1 else f"{attacks[0].family}-and-{len(attacks) - 1}-more"
    spec = AgentSpec(
        id=f"{label}-over-{base}"[:64],
        command=["python", "-I", "{agent}/start.py", *(attack.id for attack in attacks)],
        environment=Environment(variables={"ATTACK_FACTS": json.dumps(facts)}),
        models={"main": _MODEL} if any(attack.spec.model for attack in attacks) else {},
        ranked=False,
    )
    return Agent(folder / "agent.yaml", spec, trusted=False)


def chosen_wrong(case: Case) -> tuple[str, Wrong]:
    """The wrong answer that attacks are laid over: of those that need no command, one that most checks catch."""
    return min(case.spec.wrong.items(), key=lambda item: (bool(item[1].run), -len(item[1].fails), item[0]))
