"""Everything that is said to the models."""

from __future__ import annotations

from collections.abc import Sequence

from .action import Action
from .entries import ACTION, FACTS, INPUT, OBSERVATION, PLAN, REFLECTION, THOUGHT

_ROLE = "You assist in machine-learning research and development. You work on the problem below, with these tools:"
_RULES = f"""\
You know nothing of the problem yet but what stands here. Go about it like this:

- Begin with a plan in broad strokes and write it under `{PLAN}`. You may revise it when you learn more.
- Keep that entry short and in order: what is planned, what is done, what is going on, and what came out.
- What it says of the past must be borne out by an observation. Nothing else belongs there.
- A figure of quality or speed counts only when a program was run and its output showed it.
- Design experiments with care: measure what the given state achieves before you improve on it.
- Follow the plan by the shortest way.
- Name the results that support a conclusion before you draw it.
- Do not install packages; there is no network but what the problem names.
- When everything is done, check the files once more against the problem, then hand in with Final Answer, once. What is
  judged is the workspace as it then is."""
_FORMAT = f"""\
Answer in exactly this form, every entry present, in this order, each label at the start of a line:

{REFLECTION}: [what the last observation tells you; after an error, its cause and what would mend it]
{PLAN}: [the whole plan with its confirmed results so far, copied on in full. Put new text between double asterisks. If
nothing is new, copy it unchanged; leave out earlier parts only when you revise them on purpose.]
{FACTS}: [each statement that is new in the plan, one by one, as guessed or as directly confirmed by the observation
just above; figures are confirmed only by the output of a program]
{THOUGHT}: [what you do now, by which tool, and why]
{ACTION}: [the name of one tool]
{INPUT}: [its arguments as one JSON object]
{OBSERVATION}: [is given to you; do not write it]"""


def frame(task: str, actions: Sequence[Action]) -> str:
    """The part of the prompt that stays the same through a run."""
    tools = "\n".join(action.describe() for action in actions)
    return f"{_ROLE}\n\n{tools}\n\nThe problem:\n\n{task.strip()}\n\n{_RULES}\n\n{_FORMAT}"


def complaint(fault: str, count: int) -> str:
    """What is added to the prompt after an answer that cannot be used."""
    again = " again" if count > 1 else ""
    return f"\n\nYour answer could not be used{again}: {fault}. Answer anew in the form above, with all of its entries."


def bad_input(fault: str, action: Action) -> str:
    return f"error: {fault}; nothing was done. Use it like this:\n{action.usage()}"


def look_at_block(wanted: str, name: str, text: str, number: int, count: int) -> str:
    return (
        f"Below is part {number} of {count} of the file `{name}`. Somebody wants to know: {wanted}\n\nDescribe what"
        " this part says about it and quote the lines that matter. Say only what the text shows. Do not guess, least of"
        f" all numbers. If the part has nothing about it, say that.\n\n````\n{text}\n````"
    )


def merge(wanted: str, name: str, parts: Sequence[str]) -> str:
    listed = "\n\n".join(f"Part {number}:\n{part}" for number, part in enumerate(parts, 1))
    return (
        f"The file `{name}` was read in {len(parts)} parts with the question: {wanted}\n\nHere is what each part said"
        f" about it. Put them together into one description, without adding anything.\n\n{listed}"
    )


def edit_file(name: str, text: str, instruction: str) -> str:
    return (
        f"Here is the file `{name}`:\n\n````\n{text}\n````\n\nChange it as follows, and change nothing else:\n"
        f"{instruction}\n\nAnswer with the whole new file in one fenced code block, nothing left out or abbreviated."
    )


def edit_segment(name: str, text: str, instruction: str, start: int, end: int) -> str:
    return (
        f"Here are the lines {start} to {end} of the file `{name}`:\n\n````\n{text}\n````\n\nChange them as follows,"
        f" and change nothing else:\n{instruction}\n\nAnswer with the new lines alone, indented as they shall stand, in"
        " one fenced code block."
    )


def shorten(action: str, text: str, number: int, count: int) -> str:
    return (
        f"A tool was used like this:\n\n{action}\n\nBelow is part {number} of {count} of what came back. Shorten it."
        " Keep figures, errors, names and whatever the use was meant to find out, word for word where it matters. Only"
        f" what the text says; no advice. Begin with `[{OBSERVATION}]:`.\n\n````\n{text}\n````"
    )


def shorten_parts(action: str, parts: Sequence[str]) -> str:
    listed = "\n\n".join(f"Part {number}:\n{part}" for number, part in enumerate(parts, 1))
    return (
        f"A tool was used like this:\n\n{action}\n\nWhat came back was shortened in {len(parts)} parts. Put them"
        f" together into one text, without adding anything. Begin with `[{OBSERVATION}]:`.\n\n{listed}"
    )


def log_entry(step: str, observation: str) -> str:
    return (
        "Sum up one step of a research project for its log: three short paragraphs that begin with `[Reasoning]:`,"
        f" `[Action]:` and `[{OBSERVATION}]:`. Keep figures and file names exactly. Only what is confirmed below;"
        f" nothing that is merely planned or supposed.\n\n{step}\n{OBSERVATION}:\n````\n{observation}\n````"
    )


def reflect(task: str, log: str, wanted: str) -> str:
    return (
        f"A research project is under way. Its problem:\n\n{task.strip()}\n\nIts log so far:\n\n````\n{log}\n````\n\n"
        f"Think about this, on the ground of the log alone: {wanted}\n\nDo not guess, least of all numbers."
    )


def retrieve(task: str, log: str, plan: str) -> str:
    return (
        f"A research project is under way. Its problem:\n\n{task.strip()}\n\nIts plan:\n\n{plan or 'none yet'}"
        f"\n\nIts log so far:\n\n````\n{log}\n````\n\nList briefly, with exact figures and names, everything in the log"
        " that helps with the next steps of the plan. Only what the log says."
    )
