"""Judges by the service's journal: what reached it, and in which order. The two files are compared with that."""

import calendar
import re
import time
from typing import Any

from keeping import kept

from bench.judge import check, mapping, number, string

PROJECT = "ml_workflow_test_wandb"
TAGS = ["evaluation", "test"]
KEYS = ["epoch", "training_loss", "validation_loss"]
LOGGED = ("values_logged", "summary_strayed")
SLACK_S = 300

Event = dict[str, Any]


@check(weight=25, required=True)
def run_was_created(ws: Any) -> None:
    """The service saw a run created in the right project, with the right name and tags."""
    created = _created(ws)
    assert created, "the service has no run: nobody created one"
    named = _named_id(ws)
    # Without a usable info file any run may count here; the file's own check fails in that case.
    judged = [created[named]] if named in created else list(created.values())
    faults = [_faults(event) for event in judged]
    assert not all(faults), f"no run is as asked: {'; '.join(faults)[:300]}"


@check(weight=10, required=True)
def info_names_the_run(ws: Any) -> None:
    """wandb_info.json holds the id of a run that the service knows."""
    run_id = string(mapping(ws.json("wandb_info.json")).get("run_id"))
    known = sorted(_created(ws))
    assert run_id in known, f"run_id {run_id[:80]!r} is unknown to the service, which has {known[:5]}"


@check(weight=25, required=True)
def values_were_logged(ws: Any) -> None:
    """The three measured values reached that run, unchanged, and no others under their names."""
    given = [(event["values"], event.get("times")) for event in _events(ws) if event["event"] in LOGGED]
    assert _logged_at(ws) > 0, f"measured were {_issued(ws)}, logged, and how often: {str(given)[:300]}"


@check(weight=5, required=True)
def run_was_finished(ws: Any) -> None:
    """The run ended as finished after its values had been logged."""
    kinds = ("run_ended", "run_reopened")
    ends = [(event["n"], event.get("state", "reopened")) for event in _events(ws) if event["event"] in kinds]
    logged_at = _logged_at(ws)
    assert logged_at > 0, "the measured values were not logged, so there is nothing to finish"
    # A resumed run ends again, and shows its last end.
    last, state = ends[-1] if ends else (0, "none")
    assert last > logged_at and state == "finished", f"the run's ends (event, state): {ends[-5:]}"


@check(weight=15, required=True)
def values_were_read_back(ws: Any) -> None:
    """All three values were read from the service after they had been logged."""
    logged_at = _logged_at(ws)
    assert logged_at > 0, "the measured values were not logged, so no read can have returned them"
    reads = [event for event in _events(ws) if event["event"] == "values_read" and event["n"] > logged_at]
    seen = {key for event in reads for key in event["keys"]}
    missing = [key for key in KEYS if key not in seen]
    assert not missing, f"{missing} never read after being logged ({len(reads)} later reads)"


@check(weight=15, required=True)
def metrics_file_is_true(ws: Any) -> None:
    """wandb_metrics.json holds exactly the three values that the service answers for the run."""
    answered = kept(_issued(ws))
    assert _logged_at(ws) > 0, "the measured values were not logged, so the service has nothing to say of them"
    claimed = mapping(ws.json("wandb_metrics.json"))
    assert sorted(claimed) == KEYS, f"the file's keys are {sorted(claimed)[:10]}, wanted {KEYS}"
    for key in KEYS:
        # What was in memory has more digits.
        assert number(claimed[key]) == answered[key], f"{key} is {claimed[key]}, the service answers {answered[key]}"


def _created(ws: Any) -> dict[str, Event]:
    """The newest facts of every run (a later update of name or tags counts)."""
    kinds = ("run_created", "run_updated")
    return {event["run_id"]: event for event in ws.journal("tracker") if event["event"] in kinds}


def _faults(event: Event) -> str:
    """What is wrong with a run's project, tags or name; empty if nothing is."""
    if event["project"] != PROJECT:
        return f"project {event['project'][:80]!r}"
    if sorted(event["tags"]) != TAGS:
        return f"tags {event['tags'][:5]}"
    match = re.fullmatch(r"test-run-(\d{8}-\d{6})", event["name"])
    if not match:
        return f"name {event['name'][:80]!r}"
    try:
        stamp = calendar.timegm(time.strptime(match.group(1), "%Y%m%d-%H%M%S"))
    except ValueError:
        return f"name {event['name']!r} holds no time"
    off = abs(stamp - event["created"])
    return f"the time in {event['name']!r} is {off:.0f} s off" if off > SLACK_S else ""


def _named_id(ws: Any) -> str:
    """The run id of wandb_info.json, or an empty text where the file says nothing usable."""
    try:
        return string(mapping(ws.json("wandb_info.json")).get("run_id"))
    except AssertionError:
        return ""


def _events(ws: Any) -> list[Event]:
    """The journal of the judged run alone, in order."""
    named = _named_id(ws)
    return [event for event in ws.journal("tracker") if event.get("run_id") == named]


def _issued(ws: Any) -> dict[str, float]:
    """The values the service measured for the judged run."""
    found = [event["values"] for event in _events(ws) if event["event"] == "values_issued"]
    return found[0] if found else {}


def _logged_at(ws: Any) -> int:
    """The place in the journal where the run held all measured values; 0 if it never did, or was given any other."""
    issued, place = _issued(ws), 0
    held: dict[str, int] = {}
    for event in _events(ws):
        if event["event"] == "summary_strayed":
            return 0
        values = event["values"] if event["event"] == "values_logged" else {}
        for key in [key for key in KEYS if key in values]:
            place = place if key in held else event["n"]
            # The journal keeps the last of the rows that arrive together, and how many they were. A row that the client
            # sends again, for want of an answer, has the place it had.
            again = held.setdefault(key, event["at"][key]) != event["at"][key]
            if again or not issued or values[key] != issued[key] or event["times"][key] != 1:
                return 0
    return place if len(held) == len(KEYS) else 0
