"""Which records a person means by BASE and HEAD."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.base.errors import UserError
from bench.formats.record import Arm, Profile, Record
from bench.stats.entrants import Entrant, entrant_of

AA_RUNS = "runs:of-one-agent"
"""Asked of `Stored`: the records of runs whose two arms are one agent, or more than those."""
_VERSION = re.compile(r"(?:sha256:)?[0-9a-f]{7,64}")


@dataclass(frozen=True)
class Filters:
    """What to take of a set that holds more than one agent, model, profile or suite; empty: whatever there is."""

    agent: str = ""
    model: str = ""
    profile: Profile | None = None
    suite: str = ""
    arm: Arm = ""


Stored = Callable[[str, Filters], Sequence[Record]]
"""The stored records among which those of a reference are: all there are, or what an index picked."""


@dataclass(frozen=True)
class Chosen:
    """The records of one agent with its models in one profile."""

    label: str
    entrant: Entrant
    records: Sequence[Record]


def choose(reference: str, stored: Stored, filters: Filters) -> Chosen:
    """The records that `reference` names; raises `UserError` when that is nothing, or more than one entrant.

    reference: the folder of a run, a file of JSON lines, or of the `stored` records `[run:]NAME`, `[agent:]ID` (its
    newest version) or `[agent:]ID@COMMIT` (or @DIGEST, at least seven characters of either).
    """
    records = [record for record in named_records(reference, stored, filters) if _passes(record, filters)]
    groups: dict[Entrant, list[Record]] = defaultdict(list)
    for record in records:
        groups[entrant_of(record)].append(record)
    if {"base", "head"} <= {record.arm for record in records} and not _one_version(records):
        raise UserError("holds two arms", where=reference, remedy=f"say {reference}:base or {reference}:head")
    if not groups:
        raise _nothing_left(reference, filters)
    competing = {who: group for who, group in groups.items() if all(record.competes for record in group)}
    if len(groups) > 1 and len(competing) == 1:
        groups = competing
    if len(groups) > 1:
        names = "; ".join(f"{who.agent} with {who.model or 'no model'}, {who.profile}" for who in sorted(groups)[:5])
        raise UserError(
            f"holds {len(groups)} entrants: {names}", where=reference, remedy="use --agent, --model or --profile"
        )
    entrant, chosen = groups.popitem()
    return Chosen(_label(reference, entrant, chosen), entrant, chosen)


def _nothing_left(reference: str, filters: Filters) -> UserError:
    asked = {name: value for name, value in vars(filters).items() if value}
    if list(asked) == ["arm"]:
        remedy = "name two runs, or make two arms with `run --base`"
        return UserError(f"does not hold an arm {filters.arm!r}", where=reference, remedy=remedy)
    named = ", ".join(f"{name} {value}" for name, value in asked.items()) or "any agent"
    return UserError(f"does not hold a record of {named}", where=reference, remedy="name one that it holds")


def choose_arm(reference: str, stored: Stored, filters: Filters) -> Chosen:
    """As `choose`, where `:base` or `:head` at the end of `reference` means that arm alone; raises `UserError`."""
    name, _, arm = reference.rpartition(":")
    if not name or arm not in ("base", "head"):
        return choose(reference, stored, filters)
    chosen = choose(name, stored, replace(filters, arm="base" if arm == "base" else "head"))
    return replace(chosen, label=f"{reference}{chosen.label.removeprefix(name)}")


def with_history(base: Chosen, head: Chosen, stored: Stored, filters: Filters) -> Sequence[Record]:
    """The records of `base`, and those that are stored of the very same versions of its agent.

    Which of them can be compared with `head` is for `pair` to say. What is in `base` itself comes first, so that a
    cell that is stored as well counts once. Runs of head are left out: where both sides are one version, what is
    asked is how head's run differs from others.
    """
    found = list(base.records)
    of_head = {record.provenance.run for record in head.records}
    for digest in sorted({record.agent.digest for record in base.records}):
        reference = f"agent:{base.entrant.agent}@{digest}"
        found += [
            record
            for record in stored(reference, filters)
            if record.agent.digest == digest
            and record.provenance.run not in of_head
            and entrant_of(record) == base.entrant
            and _passes(record, filters)
        ]
    return found


def _one_version(records: Sequence[Record]) -> bool:
    return len({record.agent.digest for record in records}) == 1


def named_records(reference: str, stored: Stored, filters: Filters) -> Sequence[Record]:
    """The records that `reference` names, as `choose` reads it, of however many agents; raises `UserError` for none."""
    path = Path(reference)
    if (path / "run.json").is_file():
        from bench.formats.run_folder import RunFolder

        return RunFolder(path).records()
    if path.is_file():
        return _from_lines(path)
    if path.is_dir():
        raise UserError("holds no run.json", where=path, remedy="name the folder of a run")
    kind, _, rest = reference.partition(":")
    if kind not in ("run", "agent"):
        kind, rest = "", reference
    records = stored(reference, filters)
    of_run = [record for record in records if kind != "agent" and record.provenance.run == rest]
    of_agent = _of_agent(rest, records, filters) if kind != "run" else []
    if of_run and of_agent:
        raise UserError("is a run and an agent", where=rest, remedy=f"say run:{rest} or agent:{rest}")
    if not of_run and not of_agent:
        raise UserError(
            "neither a run folder, a file, a stored run nor a stored agent",
            where=reference,
            remedy="`ml-dev-bench results show` lists what is stored",
        )
    return of_run or of_agent


def _of_agent(name: str, records: Sequence[Record], filters: Filters) -> list[Record]:
    agent, _, version = name.partition("@")
    own = [record for record in records if record.agent.id == agent]
    if not own:
        return []
    if not version:
        wanted = [record for record in own if _passes(record, filters)]
        newest = max(wanted or own, key=lambda record: record.started).agent.digest
        return [record for record in own if record.agent.digest == newest]
    if not _VERSION.fullmatch(version):
        raise UserError(f"`{version}` is not a commit or digest", where=name, remedy="give 7 or more of its characters")
    # A digest reads `sha256:<hex>`; a person may leave the prefix out.
    bare = version.removeprefix("sha256:")
    chosen = [
        record for record in own if (record.agent.commit.startswith(bare) or record.agent.digest[7:].startswith(bare))
    ]
    if not chosen:
        known = sorted({record.agent.commit[:12] or record.agent.digest[:19] for record in own})
        raise UserError("no such version is stored", where=name, remedy=f"there are {', '.join(known[:8])}")
    if len(commits := {record.agent.commit for record in chosen}) > 1 or (
        not commits.pop() and len({record.agent.digest for record in chosen}) > 1
    ):
        raise UserError("more than one version begins so", where=name, remedy="give more of its characters")
    return chosen


def _from_lines(path: Path) -> list[Record]:
    from bench.formats.older_records import parse_records

    content = path.read_bytes()
    return list(parse_records(content if content.endswith(b"\n") else content + b"\n", str(path)))


def _passes(record: Record, filters: Filters) -> bool:
    who = entrant_of(record)
    return (
        filters.agent in ("", who.agent)
        and filters.model in ("", who.model)
        and filters.profile in (None, who.profile)
        and filters.suite in ("", record.provenance.suite)
        and filters.arm in ("", record.arm)
    )


def _label(reference: str, entrant: Entrant, records: Sequence[Record]) -> str:
    commits = sorted({record.agent.commit[:12] or record.agent.digest[7:19] for record in records})
    return f"{reference}: {entrant.agent} {', '.join(commits[:3])}{' and more' if len(commits) > 3 else ''}"
