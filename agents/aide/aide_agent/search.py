"""The search: one attempt after the other, until the steps, the calls or the time are used up."""

from __future__ import annotations

import os
import random
from pathlib import Path

from . import prompts
from .answers import Program, file_name, read_program
from .journal import Journal, Node, new_folder
from .policy import Move, next_move
from .preview import data_preview, starters
from .review import REVIEW, apply, read_verdict
from .settings import Settings
from .shared.chat_model import ChatModel, Question
from .shared.events import Events
from .shared.execution import OutputLimit, run_python
from .workspace import Result, Workspaces

_TEMPERATURE = 0.5
_TRIES = 3
_CALLS_A_STEP = 2
_LEAST_STEP_S = 5.0
_TIME_SHARE = 0.5
"""Of the time left, that one script may use: a script that hangs does not cost the whole search."""
_OUTPUT = OutputLimit(longest=5_100, kept=5_000)
_UNNAMED = "_aide_program.py"


class TreeSearch:
    def __init__(self, settings: Settings, model: ChatModel, workspaces: Workspaces, events: Events) -> None:
        self._settings = settings
        self._model = model
        self._workspaces = workspaces
        self._events = events
        self._generator = random.Random(settings.search.seed)
        self._folder = new_folder(settings.out)
        self._results: dict[int, Result] = {}
        self._exported: int | None = None
        self.journal = Journal(settings.search.lower_is_better)
        self._facts = prompts.Facts(
            task=settings.task,
            preview=data_preview(workspaces.start),
            starters=starters(workspaces.start),
            folds=settings.search.folds,
        )

    def run(self) -> str:
        """Search; returns why it ended. `LimitUsedUp` and `ModelUnreachable` end it too, with the best in place."""
        try:
            for step in range(self._settings.search.steps):
                if self._settings.left_s < _LEAST_STEP_S:
                    return f"the time is over after {step} steps"
                calls = self._settings.calls
                if calls is not None and calls - self._model.calls < _CALLS_A_STEP:
                    return f"the model calls are used up after {step} steps"
                self._step(step)
            return f"all {self._settings.search.steps} steps are done"
        finally:
            self._settle()
            self._save()

    def _step(self, step: int) -> None:
        move = next_move(self.journal, self._settings.search, self._generator)
        budget = prompts.Budget(self._script_s(), self._settings.search.steps - step, self._settings.left_s)
        program = self._write(self._prompt(move, budget))
        node = self.journal.add(move.parent, program.plan, program.code)
        self._events.write("node", number=node.number, stage=move.stage, parent=node.parent)
        self._run(node)
        self._save()
        self._settle()
        self._review(node)
        self._save()
        self._settle()

    def _prompt(self, move: Move, budget: prompts.Budget) -> str:
        if move.parent is None:
            return prompts.draft(self._facts, self.journal, budget, self._generator)
        if move.stage == "debug":
            return prompts.debug(self._facts, budget, move.parent)
        return prompts.improve(self._facts, self.journal, budget, move.parent)

    def _write(self, prompt: str) -> Program:
        """Plan and program; after three answers without both, the last one is taken for a program as it is."""
        for _ in range(_TRIES):
            answer = self._model.ask(Question(self._settings.main_model, prompt, _TEMPERATURE))
            self._events.write("answer", role="main", text=answer.text, usage=answer.usage)
            program = read_program(answer.text)
            if program is not None:
                return program
        return Program("", answer.text)

    def _run(self, node: Node) -> None:
        try:
            copy = self._workspaces.fresh(node.number)
        except OSError as error:
            node.fault = f"no copy of the workspace could be made for it: {error.strerror}"
            return
        wanted = file_name(node.code)
        name = self._store(copy, wanted, node) or _UNNAMED
        limit = self._script_s()
        ran = run_python([name], copy, limit, _OUTPUT, {"BENCH_WORKSPACE": str(copy)})
        # Where the copy lies means nothing to a model, and would make equal runs look different.
        node.output = ran.output.replace(f"{copy}{os.sep}", "").replace(str(copy), ".")
        node.status, node.seconds = ran.status, ran.seconds
        if ran.status is None:
            node.output += f"\n[it had {prompts.duration(limit)}]"
        (self._folder / f"node-{node.number}.py").write_text(node.code, encoding="utf-8", errors="replace")
        try:
            result = self._workspaces.keep(copy, node.number, None if name == wanted else _UNNAMED)
            self._results[node.number] = result
            node.files = self._workspaces.differences(result)
        except (OSError, RecursionError) as error:
            node.fault = f"the files it left cannot be kept: {type(error).__name__}"
        self._events.write("ran", number=node.number, status=node.status, seconds=round(ran.seconds, 3))

    @staticmethod
    def _store(copy: Path, wanted: str | None, node: Node) -> str | None:
        """Write the program into the copy under the name it asks for; None: under no name of its own."""
        for name in [wanted, _UNNAMED] if wanted else [_UNNAMED]:
            path = copy / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.resolve() != copy.resolve() / name:
                    raise OSError("leads out of the workspace")
                path.unlink(missing_ok=True)
                path.write_text(node.code, encoding="utf-8", errors="replace")
            except OSError as error:
                node.fault = f"it cannot be stored as {name}: {error}"
                continue
            return name if name == wanted else None
        return None

    def _review(self, node: Node) -> None:
        question = Question(
            self._settings.feedback_model, prompts.review(self._facts, node), _TEMPERATURE, function=REVIEW
        )
        verdict = None
        for _ in range(_TRIES):
            answer = self._model.ask(question)
            said = answer.arguments or answer.text
            self._events.write("answer", role="feedback", number=node.number, text=said, usage=answer.usage)
            verdict = read_verdict(answer)
            if verdict is not None:
                break
        apply(verdict, node)
        self._events.write("verdict", number=node.number, buggy=node.buggy, metric=node.metric, analysis=node.analysis)

    def _settle(self) -> None:
        """The workspace as the best node left it, at once: the run may be ended at any moment."""
        chosen = self.journal.to_export()
        number = None if chosen is None else chosen.number
        touched = self._workspaces.settle(None if number is None else self._results[number])
        if number != self._exported or touched:
            self._events.write("export", number=number, files=touched[:100])
        self._exported = number
        # A later verdict can turn the direction of all metrics round, so the best of either direction is kept.
        unneeded = set(self._results) - self.journal.extremes() - {number}
        for other in [other for other in unneeded if self.journal.nodes[other].reviewed]:
            self._workspaces.forget(self._results.pop(other))

    def _save(self) -> None:
        self.journal.save(self._folder / "journal.json")

    def _script_s(self) -> float:
        left = self._settings.left_s
        return min(self._settings.search.script_s, left if left == float("inf") else left * _TIME_SHARE)
