"""Records and cases that a site must survive."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.base.files import sha256_bytes
from bench.formats.model_usage import Tokens
from bench.formats.record import Artifact, Record, Try
from bench.gateway.call_log import CallLine, Sent
from bench.pages.board import CaseInfo
from tests.helpers.records import START, instant, make_check, make_claim, make_note, make_record

SITE = Path(__file__).parents[2] / "site"


HOSTILE = "<script>document.title='taken'</script><img src=x onerror=alert(1)>\"'&</pre>\u202egnp\x1b[31m"


def hostile_strings() -> list[str]:
    """Two hundred texts that end what they stand in, run something, or look like something else."""
    act = "document.title='taken'"
    bodies = (
        f"<script>{act}</script>", f"<img src=x onerror={act}>", f"<svg onload={act}>", f"<svg/onload={act}>",
        f"<iframe srcdoc='<script>parent.{act}</script>'>", f"<a href=javascript:{act}>x</a>", f"<body onload={act}>",
        f"<details open ontoggle={act}>", f"<input autofocus onfocus={act}>", f"<math><mtext><script>{act}</script>",
        f"<style>@import 'javascript:{act}'</style>", "<base href=//example.org/>", "<form action=//example.org>",
        "<meta http-equiv=refresh content=0;url=//example.org>", f"{{{{ {act} }}}}", f"${{{act}}}", "{% raw %}", "<!--",
        "]]>", "\u202eevil\u2066",
    )  # fmt: skip
    heads = (
        "", '"', "'", "-->", "</script>", "</title>", "</style></textarea></pre>", "</td></tr></table>", "</svg>",
        "\x00\x1b[31m",
    )  # fmt: skip
    return [head + body for head in heads for body in bodies]


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
            suites=("first", "second")[: 1 + place % 2],
        )
        for place, case in enumerate(found.values())
    ]


def hostile_record(text: str, **changes: Any) -> Record:
    """Every text that an agent, a model or a workflow can choose is `text`."""
    record = make_record(
        agent="evil", model=text, title=text, error=text, checks=[make_check(text, 0.0, text, about=text)],
        claims=[make_claim().model_copy(update={"name": text})], metrics=[{"name": text, "value": 1.0, "unit": text}],
        flags=[make_note(text, text)], failure_modes=[make_note(text, text)], limits_hit=[text],
        tries=[Try(outcome="infra", cause=text, message=text, at=instant(START))],
        **changes,
    )  # fmt: skip
    texts = {"run_url": text, "workflow": text, "packages": {text: text}, "sandbox": text, "suite": text}
    return record.model_copy(update={"provenance": record.provenance.model_copy(update=texts)})


def hostile_records() -> list[Record]:
    """The same for one text, and some kinds of its own."""
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


def keep_trace(
    run_folder: Path, record: Record, *, steps: int = 3, word: str = "loss", name: str = "train.py"
) -> Record:
    """Write what a run keeps of a cell, with `word` in every text, and return the record that names it."""
    folder = run_folder / "traces" / f"{record.agent.id}_{record.case.id}_{record.trial}"
    folder.mkdir(parents=True)
    bodies = {"frame": {"tools": []}, "task": {"role": "user", "content": f"Do it. {word}"}}
    lines = []
    new = ["task"]
    for step in range(1, steps + 1):
        arguments = json.dumps({"command": f"edit {name}", "text": f"a = {step}\n{word}"})
        call = {"id": f"c{step}", "type": "function", "function": {"name": f"run{word[:20]}", "arguments": arguments}}
        answer = {"role": "assistant", "content": f"I go on. {word}", "reasoning_content": word, "tool_calls": [call]}
        lines.append(
            CallLine(
                seq=step, time=record.started, role="main", alias="main", model=word, status="ok", http=200,
                sent=Sent(frame="frame", after=step - 1, kept=0 if step == 1 else 2 * step - 3, new=new),
                tokens=Tokens(input_uncached=1000, cache_read=400 * step, output=50), cost_usd=0.01, seconds=1.5,
                answer=answer,
            )
        )  # fmt: skip
        bodies |= {f"turn{step}": answer, f"told{step}": {"role": "tool", "tool_call_id": f"c{step}", "content": word}}
        new = [f"turn{step}", f"told{step}"]
    refused = {"http": 402, "code": "budget_exceeded", "error": word}
    lines.append(lines[-1].model_copy(update={"seq": steps + 1, "status": "refused", "sent": None, "answer": None,
                                              "tokens": None, "cost_usd": None, **refused}))  # fmt: skip
    changes = {"schema": 1, "files": [{"name": name, "before": "a = 0\nb = 1\n", "after": f"a = 1\nb = 1\n{word}\n"}],
               "left_out": [{"name": f"big{word}", "why": "too large to be kept"}]}  # fmt: skip
    listed = {"added": [f"big{word}"], "removed": [], "changed": [name]}
    contents = {
        "calls.jsonl": "".join(f"{line.model_dump_json()}\n" for line in lines),
        "calls.bodies.jsonl": "".join(f"{json.dumps({'id': key, 'value': it})}\n" for key, it in bodies.items()),
        "changes.json": json.dumps(changes),
        "workspace.json": json.dumps(listed),
        "agent.log": f"ran {word}\n",
    }
    artifacts = []
    for file, text in contents.items():
        data = text.encode("utf-8", "replace")
        (folder / file).write_bytes(data)
        place = str((folder / file).relative_to(run_folder))
        artifacts.append(Artifact(name=file, place=place, size=len(data), digest=sha256_bytes(data)))
    return record.model_copy(update={"artifacts": artifacts})
