"""Which process the kernel ends where the machine has no memory left: one of a job's, before any of the runner's.

Without it the largest goes. Where the limits of all jobs are more than the machine has, a job that stays within its own
and shares its memory among many small processes could choose that this is its gateway, its judge or the runner.
Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence

OOM_SCORE_ADJ = 1000
"""The most that there is."""
# Only root's own mark cannot be taken back; to other jobs /proc is closed for writing.
_MARK = f'{{ echo {OOM_SCORE_ADJ} > /proc/self/oom_score_adj; }} 2> /dev/null; exec "$@"'


def first_to_go(argv: Sequence[str]) -> list[str]:
    """`argv`, started by a shell whose mark all of it inherits."""
    return ["/bin/sh", "-c", _MARK, "sh", *argv]
