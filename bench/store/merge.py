"""From the records of many artifacts to one record for each cell: against their traces, and against each other.

A trace that lies beside a record must tell the same calls, tokens and cost. And no two gradings take the same time to a
tenth of a millisecond in every phase and check: what a copy keeps, whatever names and dates it was given, is the
measurement.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.formats.help import HELP_LOG, HelpGiven, questions_in
from bench.formats.model_usage import ModelUsage, Tokens
from bench.formats.plan import slug_of
from bench.formats.record import MOST_ARTIFACTS, Record
from bench.gateway import CallLine, heard_tokens, is_used_up
from bench.store.artifacts import Artifact, Caps, Refusal, read_file
from bench.store.bundle import provenance_of
from bench.store.sources import Basis, must_be

_LEDGER = "calls.jsonl"
_LARGEST = 64 << 20
"""Of the files of one cell; larger ones are not read, as they are not stored."""
_PAID_BY_THE_RUN: tuple[str, ...] = ("probe",)
"""Lines of the gateway's own requests: they are in no cell's usage."""
_ANSWERED = 200
_PARTS = ("input_uncached", "cache_read", "cache_write", "cache_write_1h", "output", "reasoning")
_ROUNDING = 1e-8


@dataclass(frozen=True)
class Taken:
    """A record, and where it came from."""

    record: Record
    artifact: Artifact
    where: str
    size: int
    """Bytes of its line."""


@dataclass
class Claims:
    """The records that artifacts contain for one cell."""

    first: Taken
    digest: str
    again: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)


def settle(claims: dict[str, Claims]) -> tuple[list[Taken], list[Refusal]]:
    """One record for each cell. Where artifacts contradict each other, none of their records is taken."""
    taken: list[Taken] = []
    refused: list[Refusal] = []
    for cell, claim in claims.items():
        if claim.differing:
            files = [claim.first.where, *claim.again, *claim.differing]
            others = "1 other file contains" if len(files) == 2 else f"{len(files) - 1} other files contain"
            refused += [Refusal(file, f"{others} a different record for cell {cell}") for file in files]
            continue
        taken.append(claim.first)
        refused += [Refusal(file, f"repeats the record in {claim.first.where}") for file in claim.again]
    return taken, refused


def fitting(taken: list[Taken], caps: Caps) -> tuple[list[Taken], list[Refusal]]:
    """The records that fit into the manifest and the files of the agents; of the rest the largest are refused first.

    One file that is too large for a git host keeps all records of the run from being stored.
    """
    kept, refused = _fit(taken, caps.manifest_bytes, "the manifest", lambda item: provenance_of(item.record))
    by_agent: dict[str, list[Taken]] = defaultdict(list)
    for item in kept:
        by_agent[item.record.agent.id].append(item)
    kept = []
    for agent, items in by_agent.items():
        fit, bulky = _fit(items, caps.file_bytes, f"the file of agent {agent}", lambda item: (item.where, item.size))
        kept += fit
        refused += bulky
    return kept, refused


def _fit(
    items: list[Taken], room: int, file: str, part_of: Callable[[Taken], tuple[str, int]]
) -> tuple[list[Taken], list[Refusal]]:
    """part_of: what of an item lies in the file, and its bytes. Equal parts lie there once."""
    parts = {item.where: part_of(item) for item in items}
    there = set[str]()
    fitting: list[Taken] = []
    refused: list[Refusal] = []
    for item in sorted(items, key=lambda item: (parts[item.where][1], item.record.cell)):
        part, size = parts[item.where]
        if part not in there:
            if size > room:
                refused.append(Refusal(item.where, f"makes {file} too large ({size} bytes)"))
                continue
            there.add(part)
            room -= size
        fitting.append(item)
    return fitting, refused


def measurement_of(record: Record) -> str:
    """A digest of what only one grading has; empty for a cell without a verdict, which measured nothing."""
    if record.outcome != "graded":
        return ""
    facts = [
        record.judge_seed,
        [phase.seconds for phase in record.phases],
        [[check.id, check.seconds] for check in record.checks],
    ]
    return sha256_bytes(json.dumps(facts).encode())


def without_replays(taken: Sequence[Taken], known: Mapping[str, str]) -> tuple[list[Taken], list[Refusal]]:
    """Those whose measurement is no other record's, and a refusal for each of the rest.

    known: other runs' measurements, and whose they are. Of several records with one measurement that one is taken
    whose trace lies beside it; where this does not single out one, none is.
    """
    groups: dict[str, list[Taken]] = defaultdict(list)
    for item in taken:
        groups[measurement_of(item.record) or item.where].append(item)
    kept: list[Taken] = []
    refused: list[Refusal] = []
    for measurement, group in groups.items():
        if measurement in known:
            refused += [Refusal(it.where, f"repeats the measurement of {known[measurement]}") for it in group]
            continue
        vouched = group if len(group) == 1 else [item for item in group if _has_trace(item)]
        if len(vouched) == 1:
            kept += vouched
        refused += [
            Refusal(item.where, f"cell {item.record.cell}: has the same measurement as {len(group) - 1} other record")
            for item in group
            if vouched != [item]
        ]
    return kept, refused


def _has_trace(item: Taken) -> bool:
    """Whether every file that the record names lies in its artifact, with its digest."""
    for named in item.record.artifacts:
        content = read_file(item.artifact, named.place, min(named.size, _LARGEST))
        if isinstance(content, str) or sha256_bytes(content) != named.digest:
            return False
    return bool(item.record.artifacts)


@dataclass
class _Sums:
    """What the lines of one role come to."""

    calls: int = 0
    tokens: dict[str, int | None] = field(default_factory=lambda: dict.fromkeys(_PARTS, 0))
    cost: float = 0.0
    open: bool = False
    """A call was under way at the end; its worst case is in the record and in no line."""


def trace_faults(record: Record, basis: Basis, artifact: Artifact) -> Iterator[str]:
    """Where the files beside the record contradict it. A file that was not uploaded contradicts nothing."""
    room, ledger = _LARGEST, b""
    for named in record.artifacts:
        if named.size > room:
            continue
        content = read_file(artifact, named.place, named.size)
        if isinstance(content, str):
            if content.startswith("has "):
                yield f"field `artifacts.{named.name}.size` is {named.size}, and the file {content}"
            # Else it is not there, or `survey` says what it is.
            continue
        room -= len(content)
        if (digest := sha256_bytes(content)) != named.digest:
            yield must_be(f"artifacts.{named.name}.digest", named.digest, digest, "the file in this artifact")
        elif len(content) != named.size:
            yield must_be(f"artifacts.{named.name}.size", named.size, len(content), "the file in this artifact")
        elif named.name == _LEDGER:
            ledger = content
        elif named.name == HELP_LOG and record.help is not None and record.outcome == "graded":
            yield from _help_faults(record.help, content)
    for name in (_LEDGER, HELP_LOG):
        place = f"traces/{slug_of(record.cell)}/{name}"
        unnamed = not any(named.name == name for named in record.artifacts) and len(record.artifacts) < MOST_ARTIFACTS
        if unnamed and isinstance(read_file(artifact, place, _LARGEST), bytes):
            yield must_be("artifacts", f"without {name}", "with it", "it lies beside the record")
    if record.cause == "gateway_error" and (said := _account_used_up(ledger)):
        yield must_be("cause", record.cause, "quota_used_up, or a verdict", f"by its {_LEDGER}: {said}")
    if ledger and record.outcome == "graded":
        yield from _ledger_faults(record, basis, ledger)


def _account_used_up(content: bytes) -> str:
    """How it is seen that the provider was no longer paid for what it had answered before; empty where it is not."""
    answered, said = set[str](), list[CallLine]()
    for raw in content.split(b"\n")[:-1]:
        try:
            line = CallLine.model_validate_json(raw)
        except ValidationError:
            return ""
        if line.status not in _PAID_BY_THE_RUN and line.http == _ANSWERED:
            answered.add(_provider(line))
        if line.status in _PAID_BY_THE_RUN:
            said = [] if line.code == "ok" else [*said, line]
    # One that failed in another way may be what the gateway believed.
    shown = all(is_used_up(line.http, line.error) and _provider(line) in answered for line in said)
    return said[-1].error if said and shown else ""


def _provider(line: CallLine) -> str:
    return line.model.partition("/")[0]


def _help_faults(said: HelpGiven, content: bytes) -> Iterator[str]:
    try:
        lines = questions_in(content)
    except ValueError:
        yield f"a line of its {HELP_LOG} is not a question"
        return
    found = len(lines), sum(line.answer is not None for line in lines)
    if (said.questions, said.answered) != found:
        yield must_be("help", (said.questions, said.answered), found, f"questions and answers by its {HELP_LOG}")


def _ledger_faults(record: Record, basis: Basis, content: bytes) -> Iterator[str]:
    lines = content.split(b"\n")
    # What follows the last line break was cut off by a crash.
    found, fault = _sums(lines[:-1], record, basis)
    if fault:
        yield fault
        return
    for role in record.usage:
        yield from _differences(role, found[role.role])


def _sums(lines: Sequence[bytes], record: Record, basis: Basis) -> tuple[dict[str, _Sums], str]:
    """The sums by role, and the first line that cannot be of this record."""
    roles = {role.role: role for role in record.usage}
    found = {name: _Sums() for name in roles}
    for number, raw in enumerate(lines, 1):
        try:
            line = CallLine.model_validate_json(raw)
        except ValidationError:
            return found, f"line {number} of its {_LEDGER} is not a call"
        role = roles.get(line.role)
        if role is None or line.model != role.model:
            return found, f"line {number} of its {_LEDGER} is a call of {line.role}={line.model}, which it does not use"
        fault = _price_fault(line, role, basis)
        if fault:
            return found, f"line {number} of its {_LEDGER}: {fault}"
        if line.status not in _PAID_BY_THE_RUN:
            _add(found[line.role], line)
    return found, ""


def _price_fault(line: CallLine, role: ModelUsage, basis: Basis) -> str:
    if line.tokens is None or role.cost_status in ("none", "unknown"):
        return ""
    try:
        known = basis.prices(role)
    except UserError:
        return ""
    wanted = known.cost(line.tokens, heard_tokens(line.raw_usage)) if known is not None else None
    if wanted is None or line.cost_usd is None:
        return ""
    return must_be("cost_usd", line.cost_usd, wanted, "its tokens' price") if _differ(line.cost_usd, wanted) else ""


def _add(sums: _Sums, line: CallLine) -> None:
    sums.calls += line.is_step
    sums.cost += line.cost_usd or 0.0
    sums.open |= line.status == "abandoned" and line.tokens is None
    tokens = line.tokens or Tokens()
    for part in _PARTS:
        before, more = sums.tokens[part], getattr(tokens, part)
        sums.tokens[part] = None if before is None or more is None else before + more


def _differences(role: ModelUsage, sums: _Sums) -> Iterator[str]:
    where = f"usage.{role.role}"
    if role.calls != sums.calls:
        yield must_be(f"{where}.calls", role.calls, sums.calls, f"by its {_LEDGER}")
    for part in _PARTS:
        if getattr(role.tokens, part) != sums.tokens[part]:
            yield must_be(f"{where}.tokens.{part}", getattr(role.tokens, part), sums.tokens[part], f"by its {_LEDGER}")
    cost = role.cost_usd
    if cost is not None and (cost < sums.cost - _ROUNDING if sums.open else _differ(cost, sums.cost)):
        yield must_be(f"{where}.cost_usd", cost, round(sums.cost, 10), f"by its {_LEDGER}")


def _differ(one: float, other: float) -> bool:
    return abs(one - other) > _ROUNDING * max(1.0, abs(one))
