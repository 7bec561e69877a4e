"""GitHub as others see it.

`keep_issues` keeps one open issue for each agent whose results fell; the other names are the commands that a workflow
runner reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.github.issues import Notice as Notice
    from bench.github.issues import keep_issues as keep_issues
    from bench.github.workflow import add_summary as add_summary
    from bench.github.workflow import annotate_error as annotate_error
    from bench.github.workflow import annotate_warning as annotate_warning
    from bench.github.workflow import commands_stopped as commands_stopped
    from bench.github.workflow import set_outputs as set_outputs
else:
    __getattr__ = lazy_face(
        __name__,
        {
            "issues": "Notice keep_issues",
            "workflow": "add_summary annotate_error annotate_warning commands_stopped set_outputs",
        },
    )
