"""Records and cases that a site must survive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from bench.formats.record import Artifact, Record, Try
from bench.pages.board import CaseInfo
from tests.helpers.records import START, instant, make_check, make_claim, make_note, make_record

SITE = Path(__file__).parents[2] / "site"


HOSTILE = "<script>document.title='taken'</script><img src=x onerror=alert(1)>\"'&</pre>\u202egnp\x1b[31m"


def cases_of(records: Sequence[Record], **changes: str) -> list[CaseInfo]:
    found = {record.case.id: record.case for record in records}
    return [
        CaseInfo(
            case.id,
            case.category,
            case.title,
            ("pytorch",),
            "ml-dev-bench",
            f"original_{case.id}",
            task=changes.get("task", "# Task\nDo it."),
            readme=changes.get("readme", "Background."),
        )
        for case in found.values()
    ]


def hostile_records() -> list[Record]:
    """Every text that an agent, a model or a workflow can choose, at its worst."""
    record = make_record(
        agent="evil",
        model=HOSTILE,
        title=HOSTILE,
        run="evil",
        cell=HOSTILE,
        error=HOSTILE,
        checks=[make_check(HOSTILE, 0.0, HOSTILE, about=HOSTILE)],
        claims=[make_claim().model_copy(update={"name": HOSTILE})],
        metrics=[{"name": HOSTILE, "value": 1.0, "unit": HOSTILE}],
        flags=[make_note(HOSTILE, HOSTILE)],
        failure_modes=[make_note(HOSTILE, HOSTILE)],
        limits_hit=[HOSTILE],
        artifacts=[Artifact(name=HOSTILE, place=HOSTILE, size=1, digest="sha256:" + "0" * 64)],
        tries=[Try(outcome="infra", cause=HOSTILE, message=HOSTILE, at=instant(START))],
    )
    texts = {"run_url": "javascript:alert(1)", "workflow": HOSTILE, "packages": {HOSTILE: HOSTILE}, "sandbox": HOSTILE}
    linked = make_record(agent="evil", model="=HYPERLINK(1)", run="evil", started=START + timedelta(hours=1))
    url = {"run_url": 'https://github.com/o/r/actions/runs/1"><script>'}
    return [
        record.model_copy(update={"provenance": record.provenance.model_copy(update=texts)}),
        linked.model_copy(update={"provenance": linked.provenance.model_copy(update=url)}),
        make_record(agent="evil", model="unseen", case="gone", title=HOSTILE, run="evil"),
    ]
