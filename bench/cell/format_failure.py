"""Whether the agent's program could not read the model's last answers: what MLAgentBench's logs show as retries."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.gateway import Step

_COMPLAINTS = 2
"""In a row at the end: one is what a model mends."""
_LONGEST = 1500
"""Characters at the end of what was said: before them an agent without a conversation repeats its instructions."""
_COMPLAINS = re.compile(
    r"\b(?:answer|reply|response|message|output)\b[^.\n]{0,60}\b(?:could not|cannot|can't|failed to) be "
    r"(?:parsed|read|used|understood|decoded)\b|"
    r"\b(?:could not|cannot|can't|failed to|unable to) (?:parse|read|understand|decode) (?:your|the) "
    r"(?:last |previous )?(?:answer|reply|response|message|output|action)\b|"
    r"\b(?:in|use|follow) (?:the |this |a )?(?:right|correct|required|expected|proper) form(?:at)?\b|"
    r"\b(?:no|without an?|invalid|malformed) (?:valid )?(?:action|tool call|function call|code block|json)\b"
    r"[^.\n]{0,40}\b(?:found|given|in your|answer|reply|response)\b|\bparsing error\b",
    re.IGNORECASE,
)


def format_failure(steps: Sequence[Step]) -> str:
    """The evidence that the last answers were refused for their form; empty where they were not."""
    answered = [step for step in steps if step.status == "ok"]
    if not answered or answered[-1].tools:
        return ""
    usual = _complaint(answered[0])
    found = []
    for step in reversed(answered[1:]):
        complaint = _complaint(step)
        if not complaint or complaint == usual or step.tools:
            break
        found.append(complaint)
    if len(found) < _COMPLAINTS:
        return ""
    return f"{len(found)} answers in a row could not be read by the agent's program, to the end; the last: {found[0]}"


def _complaint(step: Step) -> str:
    """What was said before this answer about the form of the one before it."""
    for said in step.said:
        tail = said.text[-_LONGEST:]
        if sign := _COMPLAINS.search(tail):
            return " ".join(tail[sign.start() :].split("\n")[0].split())[:200]
    return ""
