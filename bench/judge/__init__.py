"""What a case's check.py imports, and the runner's side of judging.

Checks run in a process of their own (`process`) and meet the agent's code only in sandboxes (`subject`).
The names for check.py are standard library only, since a grading must start in milliseconds; the runner calls
`grade_submission`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face
from bench.judge.checks import Check, check
from bench.judge.probes import Made, Probe, Tensor
from bench.judge.promised import run_command
from bench.judge.stopwatch import Timing, Work
from bench.judge.values import array, integer, mapping, number, numbers, sequence, string
from bench.judge.workspace import Workspace

if TYPE_CHECKING:
    from bench.judge.forks import Ended, Envelope, run_fork
    from bench.judge.grade import Grading, Submission, grade_submission
else:
    __getattr__ = lazy_face(__name__)
