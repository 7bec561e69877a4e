"""The loop: ask, take the answer apart, act, observe, remember."""

from __future__ import annotations

from dataclasses import dataclass

from . import prompts
from .action import Action, ActionFault, FinalAnswer
from .entries import INPUT, OBSERVATION, BadAnswer, Entries, read_arguments, read_entries
from .files import Files
from .helpers import Models, blocks
from .model_actions import LogActions, ModelActions
from .people import REQUEST_HELP
from .plain_actions import PlainActions
from .research_log import ResearchLog
from .settings import Settings
from .shared.events import Events
from .shared.texts import clean, cut

USUAL = (
    "List Files", "Copy File", "Undo Edit Script", "Execute Script", "Final Answer", "Understand File",
    "Inspect Script Lines", "Edit Script (AI)", "Edit Script Segment (AI)",
)  # fmt: skip
"""Those of the original, and the segment edit: without it a long file could not be changed at all."""
USUAL_WITH_LOG = ("Reflection",)

LONGEST_OBSERVATION = 5_000
TRIES = 5
_LEAST_STEP_S = 2.0
_SPARE_CALLS = 6
"""With fewer calls left none is spent on shortening, remembering and looking up."""
_TIME_SHARE = 0.5
"""Of the time left, that one script may use."""
_BEFORE_RETRIEVAL = 4
_LOG_MARKS = ("[Reasoning]", "[Action]", f"[{OBSERVATION}]")


class GaveUp(Exception):
    """Why the work ends without a final answer."""


@dataclass(frozen=True)
class Step:
    text: str
    """The answer, in the form asked for."""
    observation: str
    malformed: bool
    """Its input could not be read: shown until a better one follows, then forgotten."""


class Research:
    def __init__(self, settings: Settings, models: Models, files: Files, events: Events) -> None:
        self._settings = settings
        self._models = models
        self._events = events
        self._steps: list[Step] = []
        self._done = 0
        self._plan = ""
        self._log = ResearchLog(settings.out / "research_log.md") if settings.log else None
        found = [*PlainActions(files, self._script_s, settings.ask_url).all(), *ModelActions(files, models).all()]
        self._log_actions = None
        if self._log is not None:
            self._log_actions = LogActions(settings.task, self._log, models, lambda: self._plan)
            found += self._log_actions.all()
        self._actions = offered(found, settings.actions)
        self._frame = prompts.frame(settings.task, list(self._actions.values()))

    def run(self) -> str:
        """Work until the final answer, which is returned; else raises `GaveUp` or what the model's side raises."""
        for number in range(1, self._settings.steps + 1):
            if self._settings.left_s < _LEAST_STEP_S:
                raise GaveUp("the time is over")
            entries = self._answer(number)
            self._plan = entries.plan
            try:
                observation, malformed = self._act(entries)
            except FinalAnswer as final:
                return str(final)
            self._events.write("observation", step=number, action=entries.action, text=observation)
            self._remember(entries, clean(observation), malformed)
        raise GaveUp(f"all {self._settings.steps} steps are used")

    def _answer(self, number: int) -> Entries:
        prompt = self._prompt(number)
        for count in range(1, TRIES + 1):
            answer = self._models.ask("main", prompt, f"step {number}", stop=f"\n{OBSERVATION}:")
            try:
                return read_entries(answer.text, list(self._actions))
            except BadAnswer as bad:
                self._events.write("bad_answer", step=number, fault=str(bad))
                fault = "it is longer than it may be" if answer.cut_off else str(bad)
                prompt += prompts.complaint(fault, count)
        raise GaveUp(f"{TRIES} answers in a row without the form that was asked for")

    def _prompt(self, number: int) -> str:
        parts = [self._frame]
        if self._log_actions is not None and self._done >= _BEFORE_RETRIEVAL and self._can_spend():
            parts.append(f"From the research log:\n\n{self._log_actions.retrieve(self._plan)}")
        elif self._done > self._settings.shown_steps:
            parts.append("Earlier steps are left out; what came of them stands in the plan and status.")
        if self._steps:
            shown = self._steps[-self._settings.shown_steps :]
            parts.append(
                "The latest steps:\n\n" + "\n\n".join(f"{it.text}\n{_observed(it.observation)}" for it in shown)
            )
        parts.append(f"[{self._left(number)}]\nGo on." if self._steps else f"[{self._left(number)}]\nLet us begin.")
        return "\n\n".join(parts)

    def _act(self, entries: Entries) -> tuple[str, bool]:
        action = self._actions[entries.action]
        try:
            arguments = read_arguments(entries.parts[INPUT], list(action.arguments))
        except BadAnswer as bad:
            return prompts.bad_input(str(bad), action), True
        try:
            return action.use(arguments), False
        except ActionFault as fault:
            return f"error: {fault}", False
        except (OSError, ValueError) as error:
            return f"error: {error}", False

    def _remember(self, entries: Entries, observation: str, malformed: bool) -> None:
        if not malformed:
            self._steps = [step for step in self._steps if not step.malformed]
            self._done += 1
            observation = self._shortened(entries, observation)
            self._note(entries, observation)
        step = Step(entries.text(), cut(observation, 2 * LONGEST_OBSERVATION), malformed)
        self._steps = [*self._steps, step][-self._settings.shown_steps :]

    def _shortened(self, entries: Entries, observation: str) -> str:
        """A long observation as the fast model sums it up; its head and tail when calls are scarce."""
        if len(observation) <= LONGEST_OBSERVATION:
            return observation
        if not self._can_spend():
            return cut(observation, LONGEST_OBSERVATION)
        action = f"{entries.action} {cut(entries.parts[INPUT], 1_000)}"
        parts = blocks(observation)
        said = [
            self._models.fast(prompts.shorten(action, part, number, len(parts)), "shorten")
            for number, part in enumerate(parts, 1)
        ]
        text = said[0] if len(said) == 1 else self._models.fast(prompts.shorten_parts(action, said), "shorten")
        return f"[shortened] {text.rpartition(f'[{OBSERVATION}]:')[2].strip() or text}"

    def _note(self, entries: Entries, observation: str) -> None:
        """An entry for the log; made without a model when calls are scarce or the model leaves the form out."""
        if self._log is None:
            return
        text = ""
        if self._can_spend():
            text = self._models.fast(prompts.log_entry(entries.text(), observation), "log")
        if not all(mark in text for mark in _LOG_MARKS):
            head = f"[Reasoning]: {entries.parts['Thought']}\n\n[Action]: {entries.action} {entries.parts[INPUT]}"
            text = f"{cut(head, 1_000)}\n\n[{OBSERVATION}]: {cut(observation, 1_500)}"
        self._log.add(text)

    def _can_spend(self) -> bool:
        left = self._models.calls_left
        return left is None or left >= _SPARE_CALLS

    def _left(self, number: int) -> str:
        facts = [f"{self._settings.steps - number + 1} steps"]
        if self._models.calls_left is not None:
            facts.append(f"{self._models.calls_left} model calls, those of the tools included")
        if self._settings.left_s != float("inf"):
            facts.append(f"{self._settings.left_s:.0f} s")
        return f"left: {', '.join(facts)}; hand in before they are used up"

    def _script_s(self) -> float:
        left = self._settings.left_s
        return min(self._settings.script_s, left if left == float("inf") else left * _TIME_SHARE)


def offered(actions: list[Action], wanted: str) -> dict[str, Action]:
    """The actions the model may use. Those it is not told of are refused, too."""
    known = {action.name: action for action in actions}
    if wanted == "all":
        return known
    if not wanted:
        return {name: known[name] for name in (*USUAL, *USUAL_WITH_LOG, REQUEST_HELP) if name in known}
    names = [name.strip() for name in wanted.split(",")]
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"MLAB_ACTIONS names {', '.join(unknown)}; known: {', '.join(known)}")
    return {name: known[name] for name in dict.fromkeys([*names, "Final Answer"])}


def _observed(text: str) -> str:
    return f"{OBSERVATION}:\n````\n{text}\n````"
