"""The base of every validated model: closed, immutable, and with errors a person can act on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from bench.errors import UserError

MAX_DOCUMENT_BYTES = 1_000_000
_MAX_DEPTH = 50


class Model(BaseModel):
    """A closed model: unknown fields are errors, instances do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, ser_json_inf_nan="null")


ModelT = TypeVar("ModelT", bound=Model)


def read_yaml(path: Path, model: type[ModelT]) -> ModelT:
    """The document at `path` as a `model`; raises `UserError` naming file, field and remedy."""
    try:
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise UserError(f"larger than {MAX_DOCUMENT_BYTES} bytes", where=path, remedy="this is not a settings file")
        text = path.read_text(encoding="utf-8")
        _inspect(text, path)
        data = yaml.load(text, Loader=_loader())  # noqa: S506  a safe loader, faster in C
    except FileNotFoundError:
        raise UserError("no such file", where=path, remedy="create it or correct the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot be read: {error}", where=path) from None
    except yaml.YAMLError as error:
        raise UserError(f"is not YAML: {_one_line(error)}", where=path, remedy="mend the syntax") from None
    return validate(data, model, where=path)


def validate(data: Any, model: type[ModelT], *, where: Path | str) -> ModelT:
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
    field = ".".join(str(part) for part in first["loc"]) or "document"
    remedy = first["msg"]
    if first["type"] == "extra_forbidden":
        known = ", ".join(sorted(info.alias or name for name, info in model.model_fields.items()))
        remedy = f"unknown field; remove it or correct its spelling (top-level fields: {known})"
    elif first["type"] == "missing":
        remedy = "is required; add it"
    more = f" [and {len(faults) - 1} more]" if len(faults) > 1 else ""
    return f"field `{field}`: {remedy}{more}"


def _inspect(text: str, path: Path) -> None:
    """Refuse what the loader would crash on, or silently take a part of."""
    levels: list[set[str] | None] = []
    at_key: list[bool] = []
    for event in yaml.parse(text, Loader=_loader()):
        if isinstance(event, yaml.CollectionEndEvent):
            levels.pop()
            at_key.pop()
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        if levels and (names := levels[-1]) is not None:
            if at_key[-1] and isinstance(event, yaml.ScalarEvent):
                if event.value in names:
                    mark = event.start_mark
                    place = f"line {mark.line + 1}" if mark is not None else "a line"
                    raise UserError(f"{place} names `{event.value}` a second time", where=path, remedy="keep one")
                names.add(event.value)
            at_key[-1] = not at_key[-1]
        if isinstance(event, yaml.CollectionStartEvent):
            levels.append(set() if isinstance(event, yaml.MappingStartEvent) else None)
            at_key.append(True)
            if len(levels) > _MAX_DEPTH:
                raise UserError("is nested too deeply", where=path, remedy="this is not a settings file")


def _loader() -> Any:
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
