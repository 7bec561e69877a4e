"""What the runner and the operator say through the environment."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_RESERVE_SHARE = 0.05
_LEAST_RESERVE_S, _MOST_RESERVE_S = 2.0, 30.0


@dataclass(frozen=True)
class Search:
    """The parameters of the search; the defaults are those of AIDE."""

    steps: int = 20
    drafts: int = 5
    debug_probability: float = 0.5
    deepest_debug: int = 3
    folds: int = 5
    script_s: float = 3600.0
    seed: int = 0
    lower_is_better: bool | None = None
    """None: what most reviews say."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Search:
        direction = environment.get("AIDE_DIRECTION", "")
        if direction not in ("", "lower", "higher"):
            raise ValueError("AIDE_DIRECTION is `lower`, `higher` or empty")
        return cls(
            steps=int(environment.get("AIDE_STEPS") or cls.steps),
            drafts=int(environment.get("AIDE_DRAFTS") or cls.drafts),
            debug_probability=float(environment.get("AIDE_DEBUG_PROBABILITY") or cls.debug_probability),
            deepest_debug=int(environment.get("AIDE_MAX_DEBUG_DEPTH") or cls.deepest_debug),
            folds=int(environment.get("AIDE_FOLDS") or cls.folds),
            script_s=float(environment.get("AIDE_SCRIPT_SECONDS") or cls.script_s),
            seed=int(environment.get("AIDE_SEED") or cls.seed),
            lower_is_better=direction == "lower" if direction else None,
        )


@dataclass(frozen=True)
class Settings:
    task: str
    main_model: str
    feedback_model: str
    base_url: str
    key: str
    calls: int | None
    """Model calls that the run allows, reviews included; None: nobody said."""
    deadline: float
    reserve_s: float
    """Kept back at the end for putting the files in place."""
    out: Path
    search: Search

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Settings:
        main = environment["BENCH_MODEL"]
        deadline = float(environment.get("BENCH_DEADLINE") or "inf")
        share = _RESERVE_SHARE * max(deadline - time.time(), 0.0)
        calls = environment.get("BENCH_MAX_STEPS")
        return cls(
            task=Path(environment["BENCH_TASK_FILE"]).read_text(encoding="utf-8"),
            main_model=main,
            feedback_model=environment.get("BENCH_MODEL_FEEDBACK") or main,
            base_url=environment["OPENAI_BASE_URL"],
            key=environment["OPENAI_API_KEY"],
            calls=int(calls) if calls else None,
            deadline=deadline,
            reserve_s=min(max(share, _LEAST_RESERVE_S), _MOST_RESERVE_S),
            out=Path(environment["BENCH_OUT_DIR"]),
            search=Search.read(environment),
        )

    @property
    def left_s(self) -> float:
        """Seconds that may still be used for models and scripts."""
        return max(self.deadline - self.reserve_s - time.time(), 0.0)
