"""GitHub as others see it.

`keep_issues` keeps one open issue for each agent whose results fell; `put_comment` and `put_check` tell a pull request
what its gate has found; the names of `workflow` are the commands that a runner reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.github.issues import Notice, keep_issues
    from bench.github.pulls import (
        BOT,
        MOST_BYTES,
        Conclusion,
        Event,
        Pull,
        Said,
        WorkflowRun,
        choose_pull,
        fetch_artifact,
        find_pulls,
        is_protected,
        put_check,
        put_comment,
        shared_commit,
    )
    from bench.github.rest import API, GitHubApi, open_api
    from bench.github.runners import AppKey, Runners, open_runners
    from bench.github.workflow import (
        add_summary,
        annotate_error,
        annotate_warning,
        commands_stopped,
        set_outputs,
        summary_room,
    )
else:
    __getattr__ = lazy_face(__name__)
