"""Records that contradict themselves or their plan, made from the honest ones of a real run, one class at a time."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.formats.plan import RunPlan, slug_of
from bench.formats.record import Record
from bench.formats.run_folder import RunFolder
from bench.store.artifacts import Caps, find_artifacts
from bench.store.collect import Collected, PlanCheck, collect_bundle
from bench.store.sources import Sources
from tests.helpers.store import mldb

Document = dict[str, Any]
Forge = Callable[[Document, random.Random, Sequence[Document]], None]
"""Makes a record false; `others` are the honest ones beside it."""
CELLS = 10
IDLE_AGENT = """\
id: idle
command: [python, -c, ""]
"""
LOST_AGENT = """\
id: lost
command: [python, -c, ""]
models: {main: replay/lost}
"""


@dataclass(frozen=True)
class Forgery:
    """One class of lies, and the records that it can be told of."""

    forge: Forge
    fits: Callable[[Document], bool]


def _graded(facts: Document) -> bool:
    return bool(facts["outcome"] == "graded")


def _success(facts: Document) -> bool:
    return facts["success"] is True


def _failure(facts: Document) -> bool:
    return facts["success"] is False


def _paid(facts: Document) -> bool:
    return bool(facts["steps"])


def _unranked(facts: Document) -> bool:
    return not facts["agent"]["ranked"]


def _lost(facts: Document) -> bool:
    return bool(facts["outcome"] == "infra")


def _any(facts: Document) -> bool:
    return True


FORGERIES: dict[str, Forgery] = {}


def forgery(fits: Callable[[Document], bool] = _graded) -> Callable[[Forge], Forge]:
    def register(forge: Forge) -> Forge:
        FORGERIES[forge.__name__] = Forgery(forge, fits)
        return forge

    return register


def _fake_digest(rng: random.Random) -> str:
    return f"sha256:{rng.randbytes(32).hex()}"


def _later(text: str, seconds: float) -> str:
    moment = datetime.fromisoformat(text) + timedelta(seconds=seconds)
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _phase(facts: Document, name: str) -> Document:
    return next(phase for phase in facts["phases"] if phase["name"] == name)


@forgery(_success)
def no_checks(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["checks"] = []


@forgery(_success)
def fewer_checks(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    del facts["checks"][rng.randrange(len(facts["checks"]))]


@forgery(_failure)
def only_the_passed_checks(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    kept = [check for check in facts["checks"] if check["value"] >= 1]
    facts |= {"checks": kept, "score": 1.0 if kept else 0.0, "success": bool(kept), "failure_modes": []}


@forgery(_success)
def all_checks_failed(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    for check in facts["checks"]:
        check |= {"value": 0.0, "message": "it did not pass"}


@forgery(_failure)
def success_by_word(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts |= {"success": True, "failure_modes": []}


@forgery(_failure)
def success_and_score_by_word(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts |= {"success": True, "score": 1.0, "failure_modes": []}


@forgery(_failure)
def a_better_score(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["score"] = facts["score"] + rng.uniform(0.01, 0.99) * (1 - facts["score"])


@forgery(_success)
def a_worse_score(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["score"] = facts["score"] * rng.uniform(0.1, 0.9)


@forgery(_failure)
def passed_with_its_old_message(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    for check in facts["checks"]:
        check["value"] = 1.0
    facts |= {"success": True, "score": 1.0, "failure_modes": []}


@forgery(_failure)
def success_with_a_failure_mode(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    for check in facts["checks"]:
        check |= {"value": 1.0, "message": ""}
    facts |= {"success": True, "score": 1.0}


@forgery()
def an_invented_check(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    extra = {**facts["checks"][-1], "id": f"check_{rng.randrange(1000)}", "value": 1.0, "message": ""}
    facts["checks"].insert(rng.randrange(len(facts["checks"]) + 1), extra)


@forgery()
def a_check_under_another_name(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    rng.choice(facts["checks"])["id"] += "_too"


@forgery()
def a_check_twice(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["checks"].append(dict(rng.choice(facts["checks"])))


@forgery()
def another_weight(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    rng.choice(facts["checks"])["weight"] += rng.choice([0.5, 1, 100])


@forgery()
def required_no_more(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    next(check for check in facts["checks"] if check["required"])["required"] = False


@forgery()
def a_guard_of_its_own(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    rng.choice(facts["checks"]).update({"guard": True, "weight": 0})


@forgery()
def another_origin(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    check = rng.choice(facts["checks"])
    check["origin"] = "case" if check["origin"] == "framework" else "framework"


@forgery()
def another_meaning_of_a_check(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    rng.choice(facts["checks"])["about"] = "Everything is as it should be."


@forgery(_unranked)
def ranked_after_all(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["agent"]["ranked"] = True


@forgery(lambda facts: not _unranked(facts))
def not_ranked_after_a_bad_night(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["agent"]["ranked"] = False


@forgery(_any)
def another_title(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["case"][rng.choice(["title", "category"])] = "easy"


@forgery(_any)
def a_foreign_digest(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts[rng.choice(["agent", "case"])]["digest"] = _fake_digest(rng)


@forgery(_any)
def a_foreign_plan(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    said = facts["provenance"]
    said |= rng.choice([{"run": "r2"}, {"suite": "full"}, {"suite_version": "2020.1"}])


@forgery(_any)
def a_foreign_cell(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts |= rng.choice(
        [{"trial": 2}, {"profile": "full"}, {"seed": rng.randrange(2**32)}, {"models": {"main": "x/y"}}]
    )


@forgery(_any)
def a_secret_that_was_not(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["provenance"]["seed_secret"] = rng.randbytes(8).hex()


@forgery(_any)
def a_seed_from_elsewhere(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    sources = {"secret", "public", "recorded", ""} - {facts["seed_source"]}
    facts |= rng.choice([{"seed_source": source} for source in sorted(sources)] + [_other_commitment(facts, rng)])


def _other_commitment(facts: Document, rng: random.Random) -> Document:
    return {"seed_commitment": "" if facts["seed_commitment"] else _fake_digest(rng)}


@forgery(_any)
def isolation_by_word(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    said = facts["provenance"]
    said["isolated"] = not said["isolated"]


@forgery(_any)
def an_image_without_an_engine(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["provenance"]["image"] = "" if facts["provenance"]["sandbox"] == "docker" else _fake_digest(rng)


@forgery(_paid)
def a_lower_cost(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["cost_usd"] = facts["cost_usd"] * rng.choice([0.0, 0.1, 0.5, 0.9])


@forgery(_paid)
def a_lower_cost_everywhere(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    share = rng.choice([0.0, 0.1, 0.5, 0.9, 2.0])
    facts["usage"][0]["cost_usd"] *= share
    facts["cost_usd"] = round(facts["usage"][0]["cost_usd"], 8)


@forgery(_paid)
def another_price_list(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["usage"][0] |= {"price_version": f"litellm 9.{rng.randrange(99)}.0", "cost_usd": 0.0}
    facts["cost_usd"] = 0.0


@forgery(_paid)
def a_cost_that_nobody_knows(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["usage"][0] |= {"cost_status": "unknown", "cost_usd": None, "price_version": ""}
    facts |= {"cost_status": "unknown", "cost_usd": None}


@forgery(_paid)
def paid_instead_of_replayed(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["usage"][0]["cost_status"] = facts["cost_status"] = rng.choice(["exact", "estimated"])


@forgery(_paid)
def free_of_charge(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["usage"][0] |= {"cost_status": "none", "cost_usd": 0.0}
    facts |= {"cost_status": "none", "cost_usd": 0.0}


@forgery(_paid)
def fewer_tokens_at_their_price(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    tokens, cost = facts["usage"][0]["tokens"], facts["usage"][0]["cost_usd"]
    less = rng.randint(1, tokens["output"])
    tokens |= {"output": tokens["output"] - less, "reasoning": 0}
    facts["usage"][0]["cost_usd"] = round(cost - less * 15e-6, 10)
    facts["cost_usd"] = round(facts["usage"][0]["cost_usd"], 8)


@forgery(_paid)
def no_usage(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts |= {"usage": [], "cost_usd": 0.0, "cost_status": "none", "steps": 0}


@forgery(_paid)
def a_role_more(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["usage"].append({**facts["usage"][0], "role": "helper", "calls": 0})


@forgery(_paid)
def fewer_steps(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["steps"] -= rng.randint(1, facts["steps"])


@forgery(_paid)
def fewer_calls_than_its_trace(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    less = rng.randint(1, facts["steps"] - 1)
    facts["steps"] -= less
    facts["usage"][0]["calls"] -= less


@forgery(_paid)
def more_steps_than_allowed(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["steps"] = facts["usage"][0]["calls"] = facts["limits"]["steps"] + rng.randint(1, 100)
    facts["artifacts"] = []


@forgery(_any)
def wider_limits(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    name = rng.choice(["agent_s", "grade_s", "memory_mb", "steps", "cost_usd", "processes"])
    facts["limits"][name] = facts["limits"][name] * rng.randint(2, 9)


@forgery()
def longer_than_allowed(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    more = 700 + facts["limits"]["agent_s"] * rng.randint(3, 9)
    _phase(facts, "agent")["seconds"] += more
    for name in ("snapshot", "judge"):
        _phase(facts, name)["start"] = _later(_phase(facts, name)["start"], more)
    facts["finished"] = _later(facts["finished"], more)


@forgery()
def a_limit_that_did_not_end_it(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["limits_hit"] = [rng.choice(["time_limit", "cost_limit"])]


@forgery()
def ended_by_a_limit_that_it_does_not_name(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["stop_reason"] = rng.choice(["time_limit", "memory_limit", "disk_limit"])


@forgery(_failure)
def a_crash_without_its_mode(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["stop_reason"] = "crashed"
    facts["failure_modes"] = [mode for mode in facts["failure_modes"] if mode["name"] != "crashed"]


@forgery(_failure)
def a_mode_of_another_end(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    name = rng.choice(["out_of_time", "out_of_budget", "out_of_resources", "crashed"])
    facts["failure_modes"].append({"name": name, "evidence": "it was so"})


@forgery(_graded)
def infra_with_its_score(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts |= {"outcome": rng.choice(["infra", "interrupted", "skipped"]), "cause": "judge_timeout"}


@forgery(_failure)
def lost_but_with_its_checks(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts |= {"outcome": "infra", "cause": "judge_timeout", "score": None, "success": None, "stop_reason": None}


@forgery(_lost)
def lost_for_a_reason_of_its_own(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["cause"] = rng.choice(["", "bad_luck", "interrupted", "needs_missing", "service_error"])


@forgery(_graded)
def graded_with_a_cause(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts |= rng.choice([{"cause": "judge_error"}, {"error": "something was broken"}])


@forgery(_failure)
def graded_without_a_score(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts |= rng.choice([{"score": None}, {"success": None}, {"stop_reason": None}])


@forgery(_any)
def a_number_that_is_none(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts[rng.choice(["score", "cost_usd", "steps"])] = rng.choice([float("nan"), float("inf"), -1, -0.5, 1e400, 2**70])


@forgery(_graded)
def an_overclaim_denied(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    measured = rng.uniform(0.1, 0.5)
    facts["claims"] = [
        {"name": "accuracy", "claimed": measured + 0.3, "measured": measured, "tolerance": 0.01, "overclaim": False}
    ]


@forgery(_graded)
def an_overclaim_uncounted(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["claims"] = [
        {"name": "accuracy", "claimed": 0.9, "measured": 0.5, "tolerance": 0.01, "overclaim": True}
    ]  # fmt: skip
    facts["overclaims"] = rng.choice([0, 2])


@forgery(_graded)
def a_flag_of_nothing(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    name = rng.choice(["overclaimed", "retried_after_kill"])
    facts["flags"].append({"name": name, "evidence": "it was seen"})


@forgery(_failure)
def tampered_in_one_place_alone(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts[rng.choice(["flags", "failure_modes"])].append({"name": "tampered", "evidence": "test.py"})


@forgery(_paid)
def no_calls_by_word(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["flags"].append({"name": "no_model_calls", "evidence": "no answer"})


@forgery(_graded)
def phases_missing(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    del facts["phases"][rng.randrange(4)]


@forgery(_graded)
def phases_that_overlap(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    phase = facts["phases"][rng.randrange(1, 4)]
    phase["start"] = _later(phase["start"], -rng.uniform(5, 500))


@forgery(_graded)
def a_phase_beyond_the_end(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    _phase(facts, "judge")["seconds"] += rng.uniform(5, 500)


@forgery(_any)
def before_its_plan(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    back = -rng.uniform(3600, 3600 * 20)
    for it in (facts, *facts["phases"]):
        for name in {"started", "finished", "start"} & it.keys():
            it[name] = _later(it[name], back)


@forgery(_any)
def after_now(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["finished"] = _later(facts["finished"], rng.uniform(3600, 3600 * 20))


@forgery(_graded)
def checks_that_took_longer_than_the_judge(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    rng.choice(facts["checks"])["seconds"] += rng.uniform(100, 1000)


@forgery(_any)
def too_many_tries(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    one = {"outcome": "infra", "cause": "judge_timeout", "message": "again", "at": facts["started"]}
    facts["tries"] = [one] * rng.randint(2, 5)


@forgery(_any)
def a_try_that_may_not_be_repeated(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    cause = rng.choice(["judge_error", "data_error", "bad_luck"])
    facts["tries"] = [{"outcome": "infra", "cause": cause, "message": "", "at": facts["started"]}]


@forgery(_any)
def a_try_before_the_plan(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    at = _later(facts["started"], -rng.uniform(3600, 36000))
    facts["tries"] = [{"outcome": "infra", "cause": "judge_timeout", "message": "", "at": at}]


@forgery(_graded)
def killed_twice(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    one = {"outcome": "infra", "cause": "agent_killed", "message": "137", "at": facts["started"], "resumed": True}
    facts["tries"] = [one, one]
    facts["flags"].append({"name": "retried_after_kill", "evidence": "137"})


@forgery(_graded)
def interrupted_until_it_was_good(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    one = {"outcome": "interrupted", "cause": "agent_interrupted", "message": "x", "at": facts["started"]}
    count = rng.randint(2 if facts["stop_reason"] != "crashed" else 3, 9)
    facts["tries"] = [{**one, "resumed": True}] * count
    facts["flags"].append({"name": "interrupted_at_work", "evidence": f"{count} times: x"})


@forgery(_graded)
def a_copy_of_another_cell(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    """A good record under the names of a bad one's cell, with a place for its traces that would be right."""
    # Of two cells with the same traces nothing tells which record is the copy: then neither is taken.
    same = [
        it
        for it in others
        if _graded(it) and it["case"] == facts["case"] and _traces(it) != _traces(facts) and it["cell"] != facts["cell"]
    ]
    source = json.loads(json.dumps(rng.choice(same)))
    kept = {name: facts[name] for name in ("cell", "agent", "case", "models", "profile", "trial", "seed", "provenance")}
    old, new = slug_of(source["cell"]), slug_of(facts["cell"])
    facts.clear()
    facts |= {**source, **kept}
    if rng.random() < 0.5:
        facts["artifacts"] = [{**it, "place": it["place"].replace(old, new)} for it in facts["artifacts"]]
    elif rng.random() < 0.5:
        facts["artifacts"] = []


@forgery(lambda facts: bool(facts["artifacts"]))
def another_cell_s_trace(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    other = rng.choice([it for it in others if it["cell"] != facts["cell"] and it["artifacts"]])
    rng.choice(facts["artifacts"])["place"] = other["artifacts"][0]["place"]


@forgery(lambda facts: bool(facts["artifacts"]))
def a_trace_with_another_digest(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    rng.choice(facts["artifacts"])["digest"] = _fake_digest(rng)


@forgery(_paid)
def a_trace_kept_back(facts: Document, rng: random.Random, others: Sequence[Document]) -> None:
    facts["artifacts"] = [it for it in facts["artifacts"] if it["name"] != "calls.jsonl"]


def _traces(facts: Document) -> list[tuple[str, str]]:
    return [(it["name"], it["digest"]) for it in facts["artifacts"]]


@dataclass(frozen=True)
class Bundle:
    """The folder of one honest run."""

    folder: Path
    plan: RunPlan
    check: PlanCheck
    records: Mapping[str, Document]
    """By cell."""

    def collect(self) -> Collected:
        artifacts, _ = find_artifacts([self.folder], Caps())
        return collect_bundle(artifacts, self.check, Caps())

    def file_of(self, cell: str) -> Path:
        return self.folder / "cells" / f"{slug_of(cell)}.json"


def honest_bundle(folder: Path, sandbox: str) -> Bundle:
    """A real run: two agents that do nothing, the oracle, a replayed one, and one that lacks a cassette."""
    (folder / "lost" / "cassettes" / "demo").mkdir(parents=True)
    (folder / "lost" / "agent.yaml").write_text(LOST_AGENT)
    recorded = Path("agents/react/cassettes/demo/hello_world.yaml")
    shutil.copy(Path(__file__).resolve().parents[2] / recorded, folder / "lost" / "cassettes" / "demo")
    (folder / "idle").mkdir()
    (folder / "idle" / "agent.yaml").write_text(IDLE_AGENT)
    mldb(
        "run", "--suite", "smoke", "--trials", "1", "--sandbox", sandbox, "--out", "runs", "--name", "r1",
        *("--agent", "nop", "--agent", "oracle", "--agent", "react"),
        *("--agent", "./lost/agent.yaml", "--agent", "./idle/agent.yaml"),
        *("--model", "replay/demo"),
        cwd=folder, status=1,
    )  # fmt: skip
    run = RunFolder(folder / "runs" / "r1")
    plan = run.read_plan()
    documents = {record.cell: json.loads(record.to_line()) for record in run.records()}
    assert len(documents) == CELLS
    return Bundle(run.path, plan, PlanCheck.to(plan, sources=Sources.installed()), documents)


def forge(bundle: Bundle, name: str, rng: random.Random) -> tuple[str, bytes]:
    """A cell of the bundle, and a record of it with the lie `name`, at times with others beside it."""
    chosen = FORGERIES[name]
    victim = rng.choice(sorted(cell for cell, facts in bundle.records.items() if chosen.fits(facts)))
    facts = json.loads(json.dumps(bundle.records[victim]))
    others = list(bundle.records.values())
    chosen.forge(facts, rng, others)
    for _ in range(rng.choice([0, 0, 1, 2])):
        # The same lie once more may be the truth again.
        more = rng.choice(sorted(_HARMLESS_BESIDE.keys() - {name}))
        _HARMLESS_BESIDE[more](facts, rng, others)
    return victim, json.dumps(facts).encode()


_HARMLESS_BESIDE: dict[str, Forge] = {
    it.__name__: it for it in (wider_limits, another_title, isolation_by_word, a_secret_that_was_not)
}
"""Lies that fit every record, so that they can be told beside another one."""


def refused_alone(bundle: Bundle, victim: str, content: bytes) -> list[str]:
    """Collect the bundle with one record replaced; faults of the collector: what it took or lost wrongly."""
    path = bundle.file_of(victim)
    honest = path.read_bytes()
    path.write_bytes(content)
    try:
        collected = bundle.collect()
    finally:
        path.write_bytes(honest)
    taken = {item.record.cell: item.record for item in collected.taken}
    faults = [f"admitted: {victim}"] if victim in taken else []
    faults += [f"lost: {cell}" for cell in bundle.records if cell != victim and cell not in taken]
    named = [refusal for refusal in collected.refused if path.name in refusal.where]
    return faults if named or faults else [f"not named: {victim}"]


def same_records(collected: Collected, bundle: Bundle) -> bool:
    """Whether all honest records were taken as they are."""
    taken = {item.record.cell: item.record for item in collected.taken}
    return taken == {cell: Record.model_validate(facts) for cell, facts in bundle.records.items()}
