"""What a case declares once and changes for a profile: limits, needs, outputs and the metric that pages show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.base.model import Model, ModelT


def with_changes(declared: ModelT, changes: Model, whole: Mapping[str, type[Model]]) -> ModelT:
    """`declared` with the parts that `changes` writes; of each part only the fields that stand in the file.

    whole: the models of parts that may not be declared. Raises `ValueError` for such a part that is not complete.
    """
    update: dict[str, Any] = {}
    for name in changes.model_fields_set:
        written, before = getattr(changes, name), getattr(declared, name)
        if written is None:
            update[name] = None
            continue
        # A default of the model is not a change.
        fields = {field: getattr(written, field) for field in written.model_fields_set}
        update[name] = whole[name](**fields) if before is None else before.model_copy(update=fields)
    return declared.model_copy(update=update)
