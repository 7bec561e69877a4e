"""What `cases list` and `cases show` tell of a case, and what this machine lacks for it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
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
            profiles := _alike_profiles(declared)
        ):
            needs = facts.get("needs", {})
            modules = needs.get("python", []) if isinstance(needs, dict) else []
            return category, name, ",".join(map(str, profiles)), title, _lacks(_missing([*map(str, modules)]))
    # Something is wrong with the file: its model says what.
    from bench.formats.case import load_case

    case = load_case(path.parent)
    lacking = case_facts(case)["missing"].items()
    lacks = "; ".join(f"{it}: {_lacks(names)}" for it, names in lacking)
    return case.spec.category, case.id, ",".join(case.profiles), case.spec.title, lacks


def _alike_profiles(declared: object) -> list[str]:
    """Names of the profiles where none of them needs anything else than the others; otherwise nothing."""
    match declared:
        case [*names]:
            return [*map(str, names)]
        case dict() if not any(isinstance(changes, dict) and "needs" in changes for changes in declared.values()):
            return [*map(str, declared)]
    return []


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
        yield "metric", f"{metric.name}, baseline {metric.baseline:g}, target {metric.target:g} {metric.unit}".rstrip()
