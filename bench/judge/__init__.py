"""What a case's check.py imports, and the runner's side of judging.

Checks run in a process of their own (`process`) and meet the agent's code only in sandboxes (`subject`).
The names for check.py are standard library only, since a grading must start in milliseconds; the runner calls
`grade_submission`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face
from bench.judge.checks import Check as Check
from bench.judge.checks import check as check
from bench.judge.values import array as array
from bench.judge.values import integer as integer
from bench.judge.values import mapping as mapping
from bench.judge.values import number as number
from bench.judge.values import numbers as numbers
from bench.judge.values import sequence as sequence
from bench.judge.values import string as string
from bench.judge.workspace import Workspace as Workspace

if TYPE_CHECKING:
    from bench.judge.grade import Grading as Grading
    from bench.judge.grade import Submission as Submission
    from bench.judge.grade import grade_submission as grade_submission
else:
    __getattr__ = lazy_face(
        __name__,
        {
            "grade": "Grading Submission grade_submission",
        },
    )
