"""MLAgentBench's research agent as an agent of the benchmark; standard library only.

Ends with 0: final answer; 1: the model cannot be reached; 3: a limit of the run is used up; 4: gave up.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mlab_agent.files import Files
from mlab_agent.helpers import Models
from mlab_agent.research import GaveUp, Research
from mlab_agent.settings import Settings
from mlab_agent.shared.chat_model import ChatModel, Connection, LimitUsedUp, ModelUnreachable, TimeIsOver
from mlab_agent.shared.events import Events
from mlab_agent.shared.execution import adopt_orphans

DONE, UNREACHABLE, LIMITED, GAVE_UP = 0, 1, 3, 4


def main() -> int:
    settings = Settings.read(os.environ)
    events = Events(settings.out / "trace.jsonl")
    events.write("start", models=settings.models, log=settings.log, steps=settings.steps)
    adopt_orphans()
    chat = ChatModel(Connection(settings.base_url, settings.key, settings.deadline - settings.reserve_s))
    files = Files(Path.cwd(), settings.out / "backup")
    try:
        reason, status = Research(settings, Models(settings, chat, events), files, events).run(), DONE
    except (GaveUp, TimeIsOver) as end:
        reason, status = str(end), GAVE_UP
    except LimitUsedUp as limit:
        reason, status = str(limit), LIMITED
    except ModelUnreachable as error:
        reason, status = str(error), UNREACHABLE
    events.write("end", status=status, reason=reason)
    print(f"mlab_research: {reason}", file=sys.stderr)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (KeyError, ValueError, OSError) as error:
        sys.exit(f"mlab_research: cannot start or go on: {type(error).__name__}: {error}")
