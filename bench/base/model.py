"""The base of every validated model: closed, immutable, and with errors a person can act on."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from bench.base.documents import read_yaml_documents
from bench.base.errors import UserError

MAX_DOCUMENT_BYTES = 1_000_000
_LONGEST_FIELD = 200


class Model(BaseModel):
    """A closed model: unknown fields are errors, instances do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)


ModelT = TypeVar("ModelT", bound=Model)


def read_yaml(path: Path, model: type[ModelT]) -> ModelT:
    """The document at `path` as a `model`; raises `UserError` naming file, field and remedy."""
    documents = list(read_yaml_documents(path, MAX_DOCUMENT_BYTES))
    if len(documents) > 1:
        raise UserError(f"holds {len(documents)} documents", where=path, remedy="keep one")
    return validate(documents[0] if documents else None, model, where=path)


def validate(data: object, model: type[ModelT], *, where: Path | str) -> ModelT:
    """`data` as a `model`; raises `UserError` with the first fault, its field and what the field wants."""
    if not isinstance(data, dict):
        raise UserError(f"must be a mapping, is {type(data).__name__}", where=where)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise UserError(explain(error, model), where=where) from None


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """One line from pydantic's report: field, fault, remedy; and how many more there are."""
    faults = error.errors(include_url=False, include_context=False)
    first = faults[0]
    field = ".".join(str(part) for part in first["loc"])[:_LONGEST_FIELD] or "document"
    remedy = first["msg"]
    if first["type"] == "extra_forbidden":
        known = ", ".join(sorted(info.alias or name for name, info in model.model_fields.items()))
        remedy = f"unknown field; remove it or correct its spelling (top-level fields: {known})"
    elif first["type"] == "missing":
        remedy = "is required; add it"
    more = f" [and {len(faults) - 1} more]" if len(faults) > 1 else ""
    return f"field `{field}`: {remedy}{more}"
