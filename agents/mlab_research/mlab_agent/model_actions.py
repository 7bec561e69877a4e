"""The actions that ask a model: understanding and editing files, and thinking over the log."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable

from . import prompts
from .action import Action, ActionFault, Arguments, whole_number
from .files import Files
from .helpers import Models, blocks
from .plain_actions import syntax_note
from .research_log import ResearchLog
from .shared.chat_model import Answer, PromptRefused
from .shared.texts import cut

_LONGEST_EDIT = 24_000
"""Characters of a text that a model can be expected to write out again in one answer."""
_MOST_BLOCKS = 8
_OPENING = re.compile(r"^[ \t]*(`{3,})[ \t]*[\w.+-]*[ \t]*\n", re.M)
_SCRIPT = "name of the file, with its folder, relative to the workspace; a new one is made"
_SAVE = "name under which the result is saved; it may be the same"


class ModelActions:
    def __init__(self, files: Files, models: Models) -> None:
        self._files = files
        self._models = models

    def all(self) -> list[Action]:
        change = {"edit_instruction": "what to change, in detail", "save_name": _SAVE}
        return [
            Action("Understand File", "Have a whole file read with a question in mind. For a first look, or for files"
                   " too long to inspect.",
                   {"file_name": "name of the file", "things_to_look_for": "what you want to know, in detail"},
                   "what the file says about it", self._understand),
            Action("Edit Script (AI)", "Have a file changed by instructions in words.",
                   {"script_name": _SCRIPT, **change}, "the difference; look it through", self._edit),
            Action("Edit Script Segment (AI)", "Have some lines of a file changed by instructions in words; for files"
                   " too long for Edit Script (AI).",
                   {"script_name": _SCRIPT, "start_line_number": "first line, from 1",
                    "end_line_number": "last line, included", **change},
                   "the difference; look it through", self._edit_segment),
        ]  # fmt: skip

    def _understand(self, given: Arguments) -> str:
        name, wanted = given["file_name"], given["things_to_look_for"]
        parts = blocks(self._files.read(name))
        if not parts:
            return "[the file is empty]"
        chosen = parts[:_MOST_BLOCKS]
        said = [
            self._models.fast(prompts.look_at_block(wanted, name, part, number, len(parts)), "understand")
            for number, part in enumerate(chosen, 1)
        ]
        text = said[0] if len(said) == 1 else self._models.fast(prompts.merge(wanted, name, said), "merge")
        unread = (
            f"\n[only the first {_MOST_BLOCKS} of {len(parts)} parts were read]" if len(parts) > len(chosen) else ""
        )
        return text + unread

    def _edit(self, given: Arguments) -> str:
        name = given["script_name"]
        old = self._text(name)
        if len(old) > _LONGEST_EDIT:
            raise ActionFault(f"{name!r} is too long to be written anew; use Edit Script Segment (AI)")
        answer = self._ask(prompts.edit_file(name, old, given["edit_instruction"]))
        return self._save(given["save_name"], old, _in_fence(answer, name))

    def _edit_segment(self, given: Arguments) -> str:
        name = given["script_name"]
        old = self._text(name)
        lines = old.splitlines(keepends=True)
        start = whole_number(given["start_line_number"], "start_line_number")
        end = min(whole_number(given["end_line_number"], "end_line_number"), len(lines))
        if start < 1 or start > end:
            raise ActionFault(f"there are no such lines; the file has {len(lines)}")
        segment = "".join(lines[start - 1 : end])
        if len(segment) > _LONGEST_EDIT:
            raise ActionFault("these lines are too many at once; take fewer")
        answer = self._ask(prompts.edit_segment(name, segment, given["edit_instruction"], start, end))
        new = "".join([*lines[: start - 1], _in_fence(answer, name), *lines[end:]])
        return self._save(given["save_name"], old, new)

    def _text(self, name: str) -> str:
        return self._files.read(name) if self._files.path(name).exists() else ""

    def _ask(self, prompt: str) -> Answer:
        try:
            answer = self._models.ask("edit", prompt, "edit")
        except PromptRefused as refusal:
            raise ActionFault(f"the model for edits could not be asked: {refusal}") from None
        if answer.cut_off:
            raise ActionFault("the new text is longer than one answer; nothing was changed. Edit a smaller part")
        return answer

    def _save(self, name: str, old: str, new: str) -> str:
        self._files.write(name, new)
        lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "before", "after", lineterm="")
        shown = "\n".join(lines) or "[nothing was changed]"
        return f"{name} is saved{syntax_note(name, new)}. The difference, to be looked through:\n{shown}"


class LogActions:
    """Only where a log is kept."""

    def __init__(self, task: str, log: ResearchLog, models: Models, plan: Callable[[], str]) -> None:
        self._task = task
        self._log = log
        self._models = models
        self._plan = plan

    def all(self) -> list[Action]:
        return [
            Action("Reflection", "Think about something on the ground of everything done so far.",
                   {"things_to_reflect_on": "the question"}, "the thoughts", self._reflect),
            Action("Retrieval from Research Log", "Look up in the log what helps with the next steps.",
                   {"current_plan": "what you are about to do"}, "what the log has about it", self._retrieve),
            Action("Append Summary to Research Log", "Note something in the log.",
                   {"content": "what to note, briefly"}, "whether it worked", self._append),
        ]  # fmt: skip

    def retrieve(self, plan: str) -> str:
        return self._models.fast(prompts.retrieve(self._task, self._log.read(), plan), "retrieve")

    def _reflect(self, given: Arguments) -> str:
        prompt = prompts.reflect(self._task, self._log.read(), given["things_to_reflect_on"])
        return self._models.fast(prompt, "reflect")

    def _retrieve(self, given: Arguments) -> str:
        return self.retrieve(given["current_plan"] or self._plan())

    def _append(self, given: Arguments) -> str:
        self._log.add(cut(given["content"], 2_000))
        return "it is noted"


def _in_fence(answer: Answer, name: str) -> str:
    """The text of the fenced block, with a line break at its end; fences within it are part of it."""
    opening = _OPENING.search(answer.text)
    if opening is None:
        raise ActionFault("the model's answer had no code block; nothing was changed")
    rest = answer.text[opening.end() :]
    closings = [found.start() for found in re.finditer(rf"^[ \t]*{opening[1]}[ \t]*$", rest, re.M)]
    if not closings:
        raise ActionFault("the model's code block had no end; nothing was changed")
    # With several the text may hold fences of its own, or a second block may follow: valid Python decides.
    last, first = rest[: closings[-1]], rest[: closings[0]]
    text = last if not syntax_note(name, last) else first
    return text if not text or text.endswith("\n") else text + "\n"
