"""Who was measured, and which of the records count for them.

Only records of one profile, and of one version of each case, are ever put together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.formats.help import HELPED
from bench.formats.judge_version import JUDGE
from bench.formats.record import Profile, Record, case_version


@dataclass(frozen=True, order=True)
class Entrant:
    """Who is measured: an agent with its model, in one profile."""

    profile: Profile
    agent: str
    model: str


Installed = Callable[[str], str]
"""The digest of a case as it is installed, by its id; empty where it is not."""


MOST_STOPPED = 0.1
"""The share of a round's trials that may have been stopped, and the round still count as whole."""

_NEVER = "~"
"""After every instant."""


def unknown_case(case: str) -> str:
    """`Installed` where nothing is known of the cases."""
    return ""


def counted_cells(
    unique: Sequence[Record],
    suite: Mapping[Profile, Collection[str]],
    versions: Mapping[tuple[Profile, str], str],
) -> dict[tuple[Entrant, str], list[Record]]:
    """Those of `unique_cells` that count, by entrant and case in their order.

    Records of cases outside the suite, or of other than these `versions` of a case, do not count.
    """
    groups: dict[tuple[Entrant, str], list[Record]] = defaultdict(list)
    for record in unique:
        key = record.profile, record.case.id
        if record.case.id in suite.get(record.profile, ()) and record.case_version == versions[key]:
            groups[entrant_of(record), record.case.id].append(record)
    return dict(sorted(groups.items()))


def entrant_of(record: Record) -> Entrant:
    return Entrant(record.profile, record.agent.id, model_label(record.models, helped=record.help is not None))


def model_label(models: Mapping[str, str], *, helped: bool = False) -> str:
    """The models of a run as one text: the bare name where there is only the main one, empty without any.

    helped: the agent could ask for help. That makes another entrant of it, which takes part in no other's means.
    """
    alone = set(models) == {"main"}
    text = models["main"] if alone else ", ".join(f"{role}={model}" for role, model in sorted(models.items()))
    return f"{text} {HELPED}".strip() if helped else text


def unique_cells(records: Iterable[Record]) -> list[Record]:
    """One record per cell of a run: a second attempt fills what was lost, and never replaces a verdict."""
    kept: dict[tuple[str, str], Record] = {}
    for record in records:
        key = (record.provenance.run, record.cell)
        if key not in kept or _precedence(record) < _precedence(kept[key]):
            kept[key] = record
    return sorted(kept.values(), key=lambda record: (record.started, record.provenance.run, record.cell))


def counting_versions(records: Iterable[Record], installed: Installed = unknown_case) -> dict[tuple[Profile, str], str]:
    """The version of each case that counts, of those that were ever graded: the case as it is installed.

    Where that has no verdict yet, the one that most agents met, and of equals the newest. By its time alone, one added
    result of a changed copy of the case would take all others' off the board.
    """
    found: dict[tuple[Profile, str], dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        found[record.profile, record.case.id][record.case_version].append(record)
    return {
        key: next(iter(versions)) if len(versions) == 1 else _counting(versions, installed(key[1]))
        for key, versions in found.items()
    }


def repeats(records: Iterable[Record]) -> list[Record]:
    """Those of one entrant's records by which only some of the cases that it had met were tried again.

    A round is one trial of each case within a run. A trial that began when other cases had a verdict already, in a
    round that leaves any of them out, may have been chosen by these verdicts: who tries again only what failed has a
    mean above the truth. First trials of a case are no repeats, nor are whole rounds, however many a sequential
    experiment takes. What was skipped or stopped was left out, since who runs it can choose that; a few that were
    stopped leave a round whole.
    """
    rounds: dict[tuple[str, int], list[Record]] = defaultdict(list)
    met: dict[str, str] = {}
    for record in records:
        rounds[record.provenance.run, record.trial].append(record)
        if record.outcome == "graded":
            met[record.case.id] = min(record.started, met.get(record.case.id, record.started))
    found = []
    for them in rounds.values():
        stopped = sum(record.outcome == "interrupted" for record in them)
        untried = {"skipped"} if stopped <= MOST_STOPPED * len(them) else {"skipped", "interrupted"}
        tried = {record.case.id for record in them if record.outcome not in untried}
        # Each trial by its own time: a round of which one ran early could be filled by choice ever after.
        since = min((first for case, first in met.items() if case not in tried), default=_NEVER)
        found += [it for it in them if since < it.started and met.get(it.case.id, _NEVER) < it.started]
    return found


def current(records: Sequence[Record]) -> list[Record]:
    """The records of the version of each case that counts where nothing is known of the installed ones."""
    versions = counting_versions(records)
    return [record for record in records if record.case_version == versions[record.profile, record.case.id]]


def _counting(versions: Mapping[str, Sequence[Record]], digest: str) -> str:
    def claim(version: str) -> tuple[bool, int, int, str, str]:
        graded = [record for record in versions[version] if record.outcome == "graded"]
        met = len({record.agent.id for record in graded})
        newest = max(record.started for record in graded or versions[version])
        own = version.startswith(case_version(digest, "")) + (version == case_version(digest, JUDGE))
        return bool(graded), own, met, newest, version

    return max(versions, key=claim)


def _precedence(record: Record) -> tuple[bool, str, str]:
    """The first verdict wins, so that running again until chance is kind gains nothing; then the latest failure."""
    graded = record.outcome == "graded"
    return not graded, record.finished if graded else "", "" if graded else _reversed(record.finished)


def _reversed(instant: str) -> str:
    """A text that sorts the other way round."""
    return "".join(chr(0x7F - ord(character)) for character in instant)
