"""The one table of what can go wrong: whose fault it is, and whether another try may help.

A row with the outcome `infra` needs evidence that the agent cannot produce.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["infra", "interrupted", "skipped"]


@dataclass(frozen=True)
class Failure:
    """Why a cell did not get a score. No cause counts against the agent."""

    outcome: Outcome
    retry: bool
    """A second try from a pristine workspace may succeed."""
    about: str


FAILURES: dict[str, Failure] = {
    "judge_error": Failure("infra", False, "a check of the case is broken"),
    "judge_killed": Failure("infra", True, "the judge's process was killed from outside"),
    "judge_timeout": Failure("infra", True, "the judge did not end in time"),
    "data_error": Failure("infra", False, "the case's data could not be built"),
    "builder_killed": Failure("infra", True, "the process that builds the case's data was killed from outside"),
    "service_error": Failure("infra", True, "a stand-in service of the case did not work"),
    "sandbox_error": Failure("infra", True, "the sandbox could not be started"),
    "starved": Failure("infra", True, "other work on the machine left too little CPU time to judge"),
    "agent_killed": Failure("infra", True, "only in older records: the agent's process was killed"),
    "clock_jump": Failure("infra", True, "the machine's clock was set anew, and with it the agent's deadline"),
    "gateway_error": Failure("infra", True, "the provider did not answer a known-good request either"),
    "cassette_miss": Failure("infra", False, "the replayed conversation was made for another task"),
    "environment_error": Failure("infra", True, "the agent's environment could not be built"),
    "setup_error": Failure("infra", False, "the settings of the run do not fit the cell, or its files have changed"),
    "disk_full": Failure("infra", False, "this machine's disk is full"),
    "internal_error": Failure("infra", False, "a fault of the benchmark itself"),
    "interrupted": Failure("interrupted", True, "the run was stopped from outside"),
    "needs_missing": Failure("skipped", False, "this machine lacks what the case needs"),
}

FAILURE_MODES: dict[str, str] = {
    "out_of_time": "the agent was stopped by its time limit",
    "out_of_budget": "the agent used up its budget",
    "out_of_resources": "the agent used up a resource of its sandbox",
    "crashed": "the agent's command ended with an error",
    "no_artifact": "a file that the task asks for is not there",
    "tampered": "the agent changed protected files, which were restored before judging",
    "overclaimed": "the agent reported better results than the judge measured",
    "error_loop": "the model asked for the same thing again and again",
    "ended_early": "the agent ended by itself, early, and had changed nothing",
    "no_improvement": "the result is not better than the baseline",
}
"""Why an agent that was judged did not succeed: what its record names, and what that means."""
MAX_TRIES = 2
"""Of a cell within one run, the first included."""
