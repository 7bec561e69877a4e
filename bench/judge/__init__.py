"""What a case's check.py imports, and the runner's side of judging.

Checks run in a process of their own (`process`) and meet the agent's code only in sandboxes (`subject`).
The names for check.py are standard library only, since a grading must start in milliseconds; the runner calls
`grade_submission`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face
from bench.judge.checks import Check, Given, check, drawn, once
from bench.judge.probes import Made, Probe, Tensor
from bench.judge.promised import run_command
from bench.judge.stopwatch import Timing, Work
from bench.judge.values import array, integer, mapping, number, numbers, sequence, string, written_number
from bench.judge.workspace import Workspace

if TYPE_CHECKING:
    from bench.judge.claims import (
        ServiceCall,
        bootstrap_tolerance,
        check_claim,
        csv_number,
        json_number,
        proportion_tolerance,
        service_calls,
    )
    from bench.judge.compare import close
    from bench.judge.entries import holds_only
    from bench.judge.fork_watch import Ended, Envelope
    from bench.judge.forks import end_judges, run_fork
    from bench.judge.grade import Submission, grade_checks, grade_submission
    from bench.judge.grading import Grading, PartialGrading, Verdict
    from bench.judge.public_scores import record_public_scores
    from bench.judge.readers import (
        Checkpoint,
        Pretrained,
        read_checkpoint,
        read_parquet,
        read_pictures,
        read_pretrained,
    )
    from bench.judge.submissions import Labels, Numbers, submission
else:
    __getattr__ = lazy_face(__name__)
