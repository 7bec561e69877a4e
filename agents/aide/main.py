"""AIDE's tree search as an agent of the benchmark; standard library only.

Ends with 0: the search is done and a working attempt is in the workspace; 1: the model cannot be reached; 3: a limit of
the run is used up; 4: no attempt worked.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from aide_agent.search import TreeSearch
from aide_agent.settings import Settings
from aide_agent.shared.chat_model import ChatModel, Connection, LimitUsedUp, ModelUnreachable, TimeIsOver
from aide_agent.shared.events import Events
from aide_agent.shared.execution import adopt_orphans
from aide_agent.workspace import Workspaces

DONE, UNREACHABLE, LIMITED, GAVE_UP = 0, 1, 3, 4


def main() -> int:
    settings = Settings.read(os.environ)
    events = Events(settings.out / "trace.jsonl")
    events.write("start", main=settings.main_model, feedback=settings.feedback_model, search=vars(settings.search))
    adopt_orphans()
    workspaces = Workspaces(Path.cwd(), Path(tempfile.mkdtemp(prefix="aide-")))
    model = ChatModel(Connection(settings.base_url, settings.key, settings.deadline - settings.reserve_s))
    search = TreeSearch(settings, model, workspaces, events)
    status = None
    try:
        reason = search.run()
    except TimeIsOver as over:
        reason = str(over)
    except LimitUsedUp as limit:
        reason, status = str(limit), LIMITED
    except ModelUnreachable as error:
        reason, status = str(error), UNREACHABLE
    finally:
        workspaces.close()
    best = search.journal.best()
    if status is None:
        status = GAVE_UP if best is None else DONE
    events.write("end", status=status, reason=reason, best=None if best is None else best.number)
    result = "nothing worked" if best is None else f"the best is node {best.number} with {best.metric:g}"
    print(f"aide: {reason}; {result}", file=sys.stderr)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (KeyError, ValueError, OSError) as error:
        sys.exit(f"aide: cannot start or go on: {type(error).__name__}: {error}")
