"""What `cases list` and `cases show` tell of a case, and what this machine lacks for it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.formats.case import Case, CaseSpec

_MAX_BYTES = 1_000_000


def case_facts(case: Case) -> dict[str, Any]:
    """What a program is told of a case."""
    listed = {"id", "category", "title", "tags", "kind", "source"}
    facts = case.spec.model_dump(include=listed)
    missing = {it: _missing(case.for_profile(it).spec.needs.python) for it in case.profiles}
    return {**facts, "profiles": case.profiles, "missing": {it: names for it, names in missing.items() if names}}


def _missing(modules: Sequence[str]) -> list[str]:
    """Those that cannot be imported here; looks for the package alone, without importing."""
    return [name for name in modules if importlib.util.find_spec(name.partition(".")[0]) is None]


def case_row(path: Path) -> tuple[str, str, str, str, str]:
    """The row of one case, read without its model: building the model takes longer than everything else."""
    match _facts_of(path):
        case {"category": str(category), "id": str(name), "title": str(title), "profiles": declared} as facts if (
            needed := _modules_of(declared, facts.get("needs", {}))
        ):
            lacking = _lacks_by_profile({it: _missing(modules) for it, modules in needed.items()})
            return category, name, ",".join(needed), title, lacking
    # Something is wrong with the file: its model says what.
    from bench.formats.case import load_case

    case = load_case(path.parent)
    missing = {it: _missing(case.for_profile(it).spec.needs.python) for it in case.profiles}
    return case.spec.category, case.id, ",".join(case.profiles), case.spec.title, _lacks_by_profile(missing)


def _modules_of(declared: object, needs: object) -> dict[str, list[str]]:
    """The modules that each profile needs, by its name; nothing where the file is not as it should be."""
    match declared:
        case [*names]:
            changes: list[tuple[object, object]] = [(name, {}) for name in names]
        case dict():
            changes = [*declared.items()]
        case _:
            return {}
    found: dict[str, list[str]] = {}
    for name, changed in changes:
        match needs, changed:
            case _, {"needs": {"python": [*modules]}}:
                found[str(name)] = [*map(str, modules)]
            case {"python": [*modules]}, dict():
                found[str(name)] = [*map(str, modules)]
            case dict(), dict():
                found[str(name)] = []
            case _:
                return {}
    return found


def _lacks_by_profile(missing: Mapping[Any, Sequence[str]]) -> str:
    """What is said once where it holds for all profiles."""
    texts = {name: _lacks(modules) for name, modules in missing.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{name}: {text}" for name, text in texts.items() if text)


def _facts_of(path: Path) -> dict[str, Any]:
    """The fields of a case.yaml, over those of the case that it extends; empty where something is wrong with a file."""
    from bench.base.documents import read_yaml_documents

    match list(read_yaml_documents(path, _MAX_BYTES)):
        case [{"extends": str(base)} as own] if (path.parent / base / "case.yaml").is_file():
            # Only one that extends nothing itself: chains are not followed.
            match list(read_yaml_documents(path.parent / base / "case.yaml", _MAX_BYTES)):
                case [dict() as known] if "extends" not in known:
                    return {**known, **own}
        case [dict() as own]:
            return own
    return {}


def _lacks(modules: Sequence[str]) -> str:
    return f"lacks {', '.join(modules)}" if modules else ""


def profile_facts(spec: CaseSpec) -> Iterator[tuple[str, str]]:
    """Name and value of each fact that may differ between profiles."""
    limits, needs = spec.limits, spec.needs
    yield (
        "limits",
        f"agent {limits.agent_s:g} s, judge {limits.grade_s:g} s, {limits.memory_mb} MiB, "
        f"{limits.steps} steps, {limits.cost_usd:g} USD",
    )
    yield "outputs", ", ".join(item.path for item in spec.outputs.files) or "none"
    wanted = [*needs.python, *(["a GPU"] if needs.gpu else []), *(["a network"] if needs.network else [])]
    yield "needs", ", ".join(wanted) or "nothing but Python"
    if (metric := spec.metric) is not None:
        bar = f", more than {metric.bar:.0%} better than it" if metric.bar else ""
        scale = f"baseline {metric.baseline:g}{bar}, target {metric.target:g} {metric.unit}".rstrip()
        yield "metric", f"{metric.name}, {scale}"
