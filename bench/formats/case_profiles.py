"""What a case declares once and changes for a profile: limits, needs, outputs and the metric that pages show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.base.model import Model
    from bench.formats.case import CaseSpec
    from bench.formats.record import Profile


def effective_spec(spec: CaseSpec, profile: Profile) -> CaseSpec:
    """The facts that hold in `profile`; those that it does not change are the declared ones.

    Raises `ValueError` for a metric that is not complete, which `profile_faults` finds first.
    """
    changes = spec.profiles.get(profile) if isinstance(spec.profiles, dict) else None
    if changes is None:
        return spec
    update: dict[str, Any] = {}
    for name in changes.model_fields_set:
        written, declared = getattr(changes, name), getattr(spec, name)
        if written is None:
            update[name] = None
        elif declared is None:
            update[name] = _headline(_written(written))
        else:
            update[name] = declared.model_copy(update=_written(written))
    return spec.model_copy(update=update)


def profile_faults(spec: CaseSpec) -> Iterator[tuple[str, str]]:
    """Where the changes of a profile do not make a whole: fault and remedy."""
    for profile in spec.profiles:
        try:
            effective_spec(spec, profile)
        except ValueError:
            fault = f"field `profiles.{profile}.metric`: the case has no metric that it could change"
            yield fault, "write name, direction, baseline and target, or a `metric` of the case"


def _written(model: Model) -> dict[str, Any]:
    """The fields that stand in case.yaml: a default of the model is not a change."""
    return {name: getattr(model, name) for name in model.model_fields_set}


def _headline(fields: dict[str, Any]) -> Model:
    from bench.formats.case import Headline

    return Headline(**fields)
