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
    "run_limit": Failure("infra", False, "other agents of the run had used up a limit that all its cells share"),
    "quota_used_up": Failure("infra", False, "other agents of the run had used up the account with the provider"),
    "cassette_miss": Failure("infra", False, "the replayed conversation was made for another task"),
    "environment_error": Failure("infra", True, "the agent's environment could not be built"),
    "setup_error": Failure("infra", False, "the settings of the run do not fit the cell, or its files have changed"),
    "disk_full": Failure("infra", False, "this machine's disk is full"),
    "internal_error": Failure("infra", False, "a fault of the benchmark itself"),
    "interrupted": Failure("interrupted", True, "the run was stopped from outside"),
    "agent_interrupted": Failure("interrupted", True, "the run was stopped from outside while the agent worked"),
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
    "small_improvement": "the result is better than the baseline, and not by as much as the case asks",
    "invalid_submission": "the files are there, and the judge could not measure what they hold",
    "format_failure": "the agent's program could not read what the model answered, again and again",
    "context_overflow": "the conversation grew beyond what the model takes",
    "failed_edits": "edits of files failed again and again",
    "excessive_verification": "what had passed was tested again and again",
    "debugging_failure": "the agent's last runs all failed, after changes of its own",
    "bad_plan": "changes were made and ran well, and did not improve the result",
    "hallucination": "the agent's last words name a result that nothing it was shown holds",
    "asked_user": "the agent ended with a question, although no person is there",
    "ended_before_job": "the agent ended while the last it heard was that its job had not ended",
    "job_left_running": "the agent started a job in the background and did not look after it again",
}
"""Why an agent that was judged did not succeed: what its record names, and what that means."""


@dataclass(frozen=True)
class PaperTerm:
    """What a paper calls a way to fail."""

    term: str
    paper: Literal["ML-Dev-Bench", "MLAgentBench"]
    modes: tuple[str, ...]
    """Ours that stand for it, the closest first."""
    rule: str
    """The evidence that ours ask for."""


PAPER_TERMS: tuple[PaperTerm, ...] = (
    PaperTerm("excessive verification", "ML-Dev-Bench", ("excessive_verification",),
              "five tests pass in a row with no change to a file between them"),
    PaperTerm("premature end before a long job finishes", "ML-Dev-Bench", ("ended_before_job", "ended_early"),
              "it ends by itself, and what its last run brought says that the job timed out or still runs"),
    PaperTerm("left a job running", "ML-Dev-Bench", ("job_left_running",),
              "it ends by itself after starting a job in the background, with no wait for it and no look at it"),
    PaperTerm("failed edits", "ML-Dev-Bench", ("failed_edits",),
              "three edits fail or break the indentation, and these are a third of all edits"),
    PaperTerm("changed tests", "ML-Dev-Bench", ("tampered",),
              "the digest of a protected file differs at the end; it is restored before judging"),
    PaperTerm("asked the user", "ML-Dev-Bench", ("asked_user",),
              "it ends by itself after an answer without a tool call that asks or waits for an answer"),
    PaperTerm("missing output files", "ML-Dev-Bench", ("no_artifact",),
              "a file under `outputs` is not there at the end"),
    PaperTerm("context overflow", "MLAgentBench", ("context_overflow",),
              "the provider refuses a call because the conversation is too long"),
    PaperTerm("hallucination", "MLAgentBench", ("hallucination", "overclaimed"),
              "its last words name a figure that nothing it was shown holds; or a claim is better than measured"),
    PaperTerm("debugging failure", "MLAgentBench", ("debugging_failure", "error_loop"),
              "its last three runs end with an error, after changes of its own"),
    PaperTerm("bad plan", "MLAgentBench", ("bad_plan",),
              "no improvement, although at least two changes were made and four runs ended without an error"),
    PaperTerm("no or small improvement", "MLAgentBench", ("no_improvement", "small_improvement"),
              "the metric of the case is not better than its baseline, or not by more than its bar"),
)  # fmt: skip
"""The papers give shares of these by reading traces; ours are rules on evidence, so the shares are not comparable."""


def paper_names(mode: str) -> str:
    """What the papers call the failure mode `mode`, as `MLAgentBench: bad plan`; empty where they do not have it."""
    return "; ".join(f"{it.paper}: {it.term}" for it in PAPER_TERMS if mode in it.modes)


MAX_TRIES = 2
"""Of a cell within one run, the first included."""
