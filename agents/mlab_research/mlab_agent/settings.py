"""What the runner and the operator say through the environment."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Role = Literal["main", "fast", "edit"]
_RESERVE_SHARE = 0.03
_LEAST_RESERVE_S, _MOST_RESERVE_S = 1.0, 20.0
_SWITCH = {"on": True, "off": False, "": True}


@dataclass(frozen=True)
class Settings:
    task: str
    models: dict[Role, str]
    base_url: str
    key: str
    calls: int | None
    """Model calls that the run allows, over all roles; None: nobody said."""
    deadline: float
    reserve_s: float
    out: Path
    log: bool
    """Whether the research log is written and looked up."""
    steps: int
    shown_steps: int
    """How many of the latest steps the prompt holds word for word."""
    script_s: float
    actions: str
    """Names of actions to offer, with commas between them; `all`; or empty for the usual ones."""
    ask_url: str = ""
    """Where questions are answered; empty: nowhere."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Settings:
        main = environment["BENCH_MODEL"]
        deadline = float(environment.get("BENCH_DEADLINE") or "inf")
        share = _RESERVE_SHARE * max(deadline - time.time(), 0.0)
        calls = environment.get("BENCH_MAX_STEPS")
        log = environment.get("MLAB_LOG", "")
        if log not in _SWITCH:
            raise ValueError("MLAB_LOG is `on` or `off`")
        return cls(
            task=Path(environment["BENCH_TASK_FILE"]).read_text(encoding="utf-8"),
            models={
                "main": main,
                "fast": environment.get("BENCH_MODEL_FAST") or main,
                "edit": environment.get("BENCH_MODEL_EDIT") or main,
            },
            base_url=environment["OPENAI_BASE_URL"],
            key=environment["OPENAI_API_KEY"],
            calls=int(calls) if calls else None,
            deadline=deadline,
            reserve_s=min(max(share, _LEAST_RESERVE_S), _MOST_RESERVE_S),
            out=Path(environment["BENCH_OUT_DIR"]),
            log=_SWITCH[log],
            steps=int(environment.get("MLAB_STEPS") or 50),
            shown_steps=int(environment.get("MLAB_SHOWN_STEPS") or 3),
            script_s=float(environment.get("MLAB_SCRIPT_SECONDS") or 1800),
            actions=environment.get("MLAB_ACTIONS", ""),
            ask_url=environment.get("BENCH_ASK_URL", ""),
        )

    @property
    def left_s(self) -> float:
        """Seconds that may still be used."""
        return max(self.deadline - self.reserve_s - time.time(), 0.0)
