"""Runs mini-swe-agent on one task through the gateway: what its command `mini` does, without a terminal.

Ends with 0: submitted; 1: it or its model failed; 4: gave up (out of time, or answers that it cannot read).
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from minisweagent.agents import get_agent
from minisweagent.config import get_config_from_spec
from minisweagent.environments import get_environment
from minisweagent.models import get_model

SUBMITTED, FAILED, GAVE_UP = 0, 1, 4
COMMAND_S = 600
"""A command's time. The package's own 30 seconds are made for repositories, not for training."""
MARGIN_S = 15


def settings(environment: os._Environ[str]) -> dict[str, Any]:
    """The package's default configuration with the limits of this run."""
    config: dict[str, Any] = get_config_from_spec("mini.yaml")
    agent, model = config["agent"], config["model"]
    # Belongs to the interactive agent alone.
    agent.pop("mode", None)
    left = float(environment.get("BENCH_DEADLINE") or time.time() + 86400) - time.time() - MARGIN_S
    agent |= {
        # One more than the run allows: the gateway refuses it, which puts the limit on record as what ended the work.
        "step_limit": int(environment.get("BENCH_MAX_STEPS") or 50) + 1,
        "wall_time_limit_seconds": max(int(left), 1),
        # Money is the gateway's business: the package knows no price for an alias.
        "cost_limit": 0.0,
        "output_path": Path(environment["BENCH_OUT_DIR"]) / "trajectory.json",
    }
    # Address and key come from OPENAI_BASE_URL and OPENAI_API_KEY: what is given here is written into the trajectory.
    model["model_name"] = f"openai/{environment['BENCH_MODEL']}"
    model["model_kwargs"] |= {"timeout": 900, "max_retries": 0}
    config["environment"]["timeout"] = max(min(COMMAND_S, int(left)), 1)
    return config


def counted(agent: Any) -> dict[str, float]:
    """What the package counts by itself: calls, dollars by litellm's prices, and the tokens of each answer."""
    usages = [it.get("extra", {}).get("response", {}).get("usage") for it in agent.messages]
    known = [it for it in usages if it]
    return {
        "calls": agent.n_calls,
        "cost_usd": agent.cost,
        "input_tokens": sum(it["prompt_tokens"] for it in known),
        "cached_tokens": sum((it.get("prompt_tokens_details") or {}).get("cached_tokens") or 0 for it in known),
        "output_tokens": sum(it["completion_tokens"] for it in known),
    }


def main() -> int:
    environment = os.environ
    config = settings(environment)
    task = Path(environment["BENCH_TASK_FILE"]).read_text(encoding="utf-8")
    agent = get_agent(
        get_model(config=config["model"]),
        get_environment(config["environment"], default_type="local"),
        config["agent"],
        default_type="default",
    )
    try:
        end = agent.run(task)
    except Exception as error:
        print(f"mini-swe-agent: {type(error).__name__}: {error}", file=sys.stderr)
        return FAILED
    finally:
        report = json.dumps(counted(agent)) + "\n"
        Path(environment["BENCH_OUT_DIR"], "usage.json").write_text(report, encoding="utf-8")
    print(f"mini-swe-agent: {end.get('exit_status')}", file=sys.stderr)
    return SUBMITTED if end.get("exit_status") == "Submitted" else GAVE_UP


if __name__ == "__main__":
    sys.exit(main())
