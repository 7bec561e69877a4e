"""GitHub as others see it.

`keep_issues` keeps one open issue for each agent whose results fell; the other names are the commands that a workflow
runner reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.github.issues import Notice, keep_issues
    from bench.github.workflow import add_summary, annotate_error, annotate_warning, commands_stopped, set_outputs
else:
    __getattr__ = lazy_face(__name__)
