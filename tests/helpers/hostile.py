"""Artifacts of a run as its jobs leave them, and what somebody who owns a job can make of one."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import random
import socket
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.base.model import seed_text
from bench.formats.case import load_case
from bench.formats.plan import PlannedCell, RunPlan, public_seed, slug_of
from bench.formats.record import Phase, Record
from bench.formats.run_folder import RunFolder
from bench.gateway import Prices, prices_of_role
from bench.store.collect import PlanCheck, Shards
from bench.store.sources import Sources
from tests.helpers.records import SONNET, instant, make_check, make_provenance, make_record, make_usage

RUN = "night-1"
Document = dict[str, Any]


@dataclass(frozen=True)
class Night:
    """A planned run, its records, and which artifact brings which."""

    plan: RunPlan
    shards: Shards
    records: dict[str, list[Record]]
    """By artifact."""
    folder: tempfile.TemporaryDirectory[str] = field(
        default_factory=functools.partial(tempfile.TemporaryDirectory, prefix="night-"), repr=False
    )
    """Holds the sources of the cases."""

    @property
    def cases(self) -> Path:
        return Path(self.folder.name)

    def check(self, *, shards: bool = True, run_url: str | None = None) -> PlanCheck:
        """What its records must agree with."""
        return PlanCheck.to(self.plan, self.shards if shards else None, run_url, Sources.installed(self.cases))

    @property
    def cells(self) -> list[str]:
        return sorted(cell.cell for cell in self.plan.cells)

    def lay_out(self, folder: Path, artifacts: Sequence[str] | None = None) -> None:
        """The artifacts as actions/download-artifact leaves them."""
        for name in self.records if artifacts is None else artifacts:
            write_artifact(folder / name, self.plan, self.records[name])


def write_artifact(folder: Path, plan: RunPlan, records: Sequence[Record]) -> None:
    """One job's run folder."""
    folder.mkdir(parents=True)
    RunFolder(folder).write_plan(plan)
    (folder / "cells").mkdir()
    for record in records:
        (folder / "cells" / f"{slug_of(record.cell)}.json").write_text(record.to_line() + "\n")


def write_case(root: Path, name: str) -> str:
    """A case of one check, as the records of a night say; returns its digest."""
    folder = root / "debugging" / name
    if not folder.exists():
        folder.mkdir(parents=True)
        title = name.replace("_", " ").capitalize()
        source = "source: {benchmark: own, id: x}"
        (folder / "case.yaml").write_text(f"id: {name}\ncategory: debugging\ntitle: {title}\n{source}\n")
        (folder / "task.md").write_text("Do it.\n")
        (folder / "check.py").write_text(_CHECK)
    return load_case(folder).digest


_CHECK = '''\
from bench.judge import check


@check(weight=2, required=True)
def a(ws):
    """The work shows that a."""
'''


@functools.cache
def _prices() -> Prices | None:
    return prices_of_role(SONNET, "main", "", None, None)


def make_honest(record: Record, number: int, digest: str) -> Record:
    """The record with what a real run would have beside: prices, all phases, a seed of its own, its case's digest."""
    usage = make_usage(SONNET, record.steps, 0.0, "exact")
    prices = _prices()
    assert prices is not None, "the tests need litellm"
    cost = round(prices.cost(usage.tokens), 8)
    usage = usage.model_copy(update={"cost_usd": cost, "price_version": prices.version})
    prepare, agent, judge = record.phases
    snapshot = Phase(name="snapshot", start=judge.start, seconds=0.0)
    return record.model_copy(
        update={
            "case": record.case.model_copy(update={"digest": digest}),
            "judge_seed": seed_text(number),
            "seed_source": "public",
            "usage": [usage],
            "cost_usd": cost,
            "cost_status": "exact",
            "phases": [prepare, agent, snapshot, judge],
        }
    )


def make_planned_night(shards: int = 4, cells: int = 4, *, as_trials: bool = False) -> Night:
    """`shards` artifacts of `cells` cells each, started an hour ago.

    as_trials: the cases of all shards are the same, each in a trial of its own.
    """
    folder = tempfile.TemporaryDirectory(prefix="night-")
    started = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    records: dict[str, list[Record]] = {}
    planned: list[PlannedCell] = []
    for shard in range(shards):
        name = f"mldb-{RUN}-shard-{shard}"
        for number in range(cells):
            agent, case = ("aide", "react")[number % 2], f"case_{shard}_{number // 2}"
            trial = 1
            if as_trials:
                case, trial = f"case_{number // 2}", shard + 1
            passed = 1.0 if number % 3 else 0.0
            record = make_record(
                agent=agent,
                case=case,
                trial=trial,
                run=RUN,
                started=started,
                seed=public_seed("1", case, trial),
                checks=[make_check("a", passed)],
            )
            record = make_honest(record, len(planned), write_case(Path(folder.name), case))
            records.setdefault(name, []).append(record)
            planned.append(planned_cell(record))
    provenance = make_provenance(RUN)
    plan = RunPlan(
        run=RUN,
        created=instant(started - timedelta(minutes=5)),
        suite=provenance.suite,
        suite_version=provenance.suite_version,
        profile="mini",
        sandbox=provenance.sandbox,
        cells=planned,
    )
    owners = {name: [record.cell for record in found] for name, found in records.items()}
    return Night(plan, Shards(run=RUN, artifacts=owners), records, folder)


def planned_cell(record: Record) -> PlannedCell:
    return PlannedCell(
        cell=record.cell,
        agent=record.agent.id,
        agent_digest=record.agent.digest,
        agent_commit=record.agent.commit,
        models=record.models,
        case=record.case.id,
        case_digest=record.case.digest,
        trial=record.trial,
        ranked=record.agent.ranked,
    )


def document(record: Record) -> Document:
    loaded = json.loads(record.to_line())
    assert isinstance(loaded, dict)
    return loaded


def put(changes: dict[str, Any]) -> Callable[[Document], Document]:
    """Values at dotted paths; a number is an index."""

    def change(facts: Document) -> Document:
        for path, value in changes.items():
            *folders, last = path.split(".")
            here: Any = facts
            for part in folders:
                here = here[int(part) if part.isdigit() else part]
            here[int(last) if last.isdigit() else last] = value
        return facts

    return change


FORGERIES: dict[str, Callable[[Document], Document]] = {
    "another run": put({"provenance.run": "night-2"}),
    "another agent": put({"agent.id": "oracle"}),
    "another agent's digest": put({"agent.digest": "sha256:" + "0" * 64}),
    "another commit of the agent": put({"agent.commit": "f" * 40}),
    "another case": put({"case.id": "hello_world"}),
    "another case's digest": put({"case.digest": "sha256:" + "0" * 64}),
    "another model": put({"models": {"main": "openai/gpt-5-mini"}}),
    "one more model": put({"models": {"main": "anthropic/claude-sonnet-4-5", "judge": "x/y"}}),
    "another profile": put({"profile": "full"}),
    "another trial": put({"trial": 2}),
    "another seed": put({"seed": 1}),
    "another judge": put({"provenance.judge": "2"}),
    "another suite": put({"provenance.suite": "full"}),
    "another suite version": put({"provenance.suite_version": "2"}),
    "another sandbox": put({"provenance.sandbox": "docker"}),
    "a run url that is none": put({"provenance.run_url": "javascript:alert(1)"}),
    "a cell of nobody": put({"cell": "aide/x/hello_world/mini/1"}),
    "a cell that leads out": put({"cell": "../../../../etc/passwd"}),
    "a cell that speaks": put({"cell": "\x1b[2J\n::set-env name=PATH::/tmp ##[add-mask]x"}),
    "an agent that leads out": put({"agent.id": "../../manifests/x"}),
    "an artifact that leads out": put(
        {"artifacts": [{"name": "x", "place": "../../../etc/passwd", "size": 1, "digest": "sha256:" + "0" * 64}]}
    ),
    "an absolute artifact": put(
        {"artifacts": [{"name": "x", "place": "/etc/passwd", "size": 1, "digest": "sha256:" + "0" * 64}]}
    ),
    "schema 0": put({"schema": 0}),
    "schema 2": put({"schema": 2}),
    "an unknown field": put({"surprise": 1}),
    "an unknown field that speaks": put({"\n::error::\x1b[31m": 1}),
    "a score for nothing": put({"outcome": "infra"}),
    "a score above all": put({"score": 1e9}),
    "no score": put({"score": None}),
    "a year that never comes": put({"started": "9999-99-99T99:99:99Z"}),
    "tomorrow's tomorrow": put({"finished": "2999-01-01T00:00:00Z"}),
    "the last second of the calendar": put({"finished": "9999-12-31T23:59:59Z"}),
    "the first second of the calendar": put({"started": "0001-01-01T00:00:00Z"}),
    "before its plan": put({"started": "2001-01-01T00:00:00Z"}),
    "a phase at no time": put({"phases.0.start": "2026-02-31T25:61:61Z"}),
    "another price": put({"usage.0.cost_usd": 0.0, "cost_usd": 0.0}),
    "another price list": put({"usage.0.price_version": "litellm 1.0.0"}),
    "a price that is not said": put({"usage.0.price_version": ""}),
    "a replayed cost of a paid model": put({"usage.0.cost_status": "simulated", "cost_status": "simulated"}),
    "a cost that is not known": put(
        {
            "usage.0.cost_usd": None,
            "usage.0.cost_status": "unknown",
            "usage.0.price_version": "",
            "cost_usd": None,
            "cost_status": "unknown",
            "limits.cost_usd": None,
            "provenance.packages": {"litellm": importlib.metadata.version("litellm")},
        }
    ),
    "more tokens than paid for": put({"usage.0.tokens.output": 10**6}),
    "a title of its own": put({"case.title": "Easy"}),
    "not a number": put({"cost_usd": float("nan")}),
    "infinity": put({"checks.0.weight": float("inf")}),
    "half a character": put({"error": "\ud800"}),
}
"""What a record of a planned cell can falsely say."""


def _raw(content: bytes) -> Callable[[Path, str, Record], None]:
    def write(folder: Path, name: str, record: Record) -> None:
        (folder / "cells" / name).write_bytes(content)

    return write


def _sparse(folder: Path, name: str, record: Record) -> None:
    with (folder / "cells" / name).open("wb") as file:
        file.truncate(1 << 40)


def _link(folder: Path, name: str, record: Record) -> None:
    (folder / "record.json").write_text(record.to_line())
    (folder / "cells" / name).symlink_to("../record.json")


def _hard_link(folder: Path, name: str, record: Record) -> None:
    (folder / "record.json").write_text(record.to_line())
    os.link(folder / "record.json", folder / "cells" / name)


def _pipe(folder: Path, name: str, record: Record) -> None:
    os.mkfifo(folder / "cells" / name)


def _socket(folder: Path, name: str, record: Record) -> None:
    here = os.open(folder / "cells", os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/{name[:40]}.json")
    os.close(here)


def _folder(folder: Path, name: str, record: Record) -> None:
    (folder / "cells" / name).mkdir()


def _unreadable_name(folder: Path, name: str, record: Record) -> None:
    path = os.fsencode(folder / "cells") + b"/\xff\n::error::\x1b[2J.json"
    with open(path, "wb") as file:
        file.write(record.to_line().encode())


def _cells_link(folder: Path, name: str, record: Record) -> None:
    (folder / "cells").rmdir()
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / name).write_text(record.to_line())
    (folder / "cells").symlink_to("elsewhere")


def _cells_file(folder: Path, name: str, record: Record) -> None:
    (folder / "cells").rmdir()
    (folder / "cells").write_text(record.to_line())


def _outside_link(folder: Path, name: str, record: Record) -> None:
    (folder / "cells" / name).symlink_to("/etc/passwd")


def _case_twin(folder: Path, name: str, record: Record) -> None:
    (folder / "cells" / "A.json").write_text("{}")
    (folder / "cells" / "a.json").write_text(record.to_line())


SHAPES: dict[str, Callable[[Path, str, Record], None]] = {
    "empty": _raw(b""),
    "zeros": _raw(bytes(1000)),
    "no JSON": _raw(b"{"),
    "a list": _raw(b"[]"),
    "a number": _raw(b"1e400"),
    "deep": _raw(b'{"a":' * 50_000),
    "deep lists": _raw(b"[" * 200_000),
    "long digits": _raw(b"9" * 100_000),
    "no UTF-8": _raw(b'{"schema":1,"cell":"\xff\xfe"}'),
    "a pickle": _raw(b"\x80\x04\x95\x00\x00."),
    "too large": _raw(b" " * ((1 << 20) + 1)),
    "sparse": _sparse,
    "a symbolic link": _link,
    "a link outside": _outside_link,
    "a hard link": _hard_link,
    "a pipe": _pipe,
    "a socket": _socket,
    "a folder": _folder,
    "a name that speaks": _unreadable_name,
    "cells is a link": _cells_link,
    "cells is a file": _cells_file,
    "names that differ in case": _case_twin,
}
"""What a file of `cells/` can be instead of a record."""


def mutated(line: str, rng: random.Random) -> bytes:
    """The bytes of a record with a few random edits: flips, cuts, doublings, and pieces of trouble."""
    content = bytearray(line.encode())
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(content)) if content else 0
        kind = rng.randrange(5)
        if kind == 0 and content:
            content[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del content[at : at + rng.randint(1, 200)]
        elif kind == 2:
            content[at:at] = content[at : at + rng.randint(1, 200)]
        elif kind == 3:
            content[at:at] = rng.choice([b"\0", b"\x1b[2J", b"\n::error::x\n", b'"', b"}", b"1e999", b"NaN", b"\xff"])
        else:
            content[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 30)))
    return bytes(content)
