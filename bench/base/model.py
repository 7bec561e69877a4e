"""The base of every validated model: closed, immutable, and with errors that tell the user what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from bench.base.documents import read_yaml_documents
from bench.base.errors import UserError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_DOCUMENT_BYTES = 1_000_000
_LONGEST_FIELD = 200
_LONGEST_VALUE = 60
_WANTED = {
    "list_type": "must be a list; write it as `[one, two]`",
    "dict_type": "must be a mapping; write lines of `name: value` below it",
    "model_type": "must be a mapping; write lines of `name: value` below it",
    "string_type": "must be a text; write it in quotes",
    "bool_type": "must be `true` or `false`",
    "bool_parsing": "must be `true` or `false`",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    "too_short": "is empty; write at least one entry",
}
"""By the kind of fault, what a field wants, where pydantic says it in words of Python."""


class Model(BaseModel):
    """A closed model: unknown fields are errors, instances do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)


ModelT = TypeVar("ModelT", bound=Model)


def seed_text(seed: int) -> str:
    """A seed of up to 128 bits as 32 hexadecimal digits."""
    return f"{seed:032x}"


def _as_seed_text(value: object) -> object:
    return seed_text(value) if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else value


SeedText = Annotated[str, Field(pattern=r"^[0-9a-f]{1,32}$"), BeforeValidator(_as_seed_text)]
"""A seed as text: a number of more than 53 bits does not survive every reader of JSON. Older files have numbers."""


def read_yaml(path: Path, model: type[ModelT]) -> ModelT:
    """The document at `path` as a `model`; raises `UserError` naming file, field and remedy."""
    documents = list(read_yaml_documents(path, MAX_DOCUMENT_BYTES))
    if len(documents) > 1:
        raise UserError(f"holds {len(documents)} documents", where=path, remedy="keep one of them")
    return validate(documents[0] if documents else None, model, where=path)


def validate(data: object, model: type[ModelT], *, where: Path | str) -> ModelT:
    """`data` as a `model`; raises `UserError` with the first fault, its field and what the field wants."""
    if not isinstance(data, dict):
        found = "empty" if data is None else f"a {type(data).__name__}"
        raise UserError(f"must be a mapping, but is {found}", where=where, remedy="write lines of `field: value`")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise UserError(explain(error, model), where=where) from None


def parse_json(data: bytes, model: type[ModelT], *, where: Path | str, remedy: str = "") -> ModelT:
    """The JSON document `data` as a `model`; raises `UserError`."""
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise UserError(explain(error, model), where=where, remedy=remedy) from None


def read_json(path: Path, model: type[ModelT], *, remedy: str) -> ModelT:
    """The JSON document in the file `path` as a `model`; raises `UserError`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=path, remedy=remedy) from None
    return parse_json(data, model, where=path, remedy=remedy)


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """One line from pydantic's report: the likeliest fault, its field and remedy, and how many more there are."""
    faults = error.errors(include_url=False)
    # First the unknown fields: a field with a spelling mistake is also reported as missing.
    first = min(faults, key=lambda fault: fault["type"] != "extra_forbidden")
    # A tag in brackets tells which kind of a union was meant; it is not a field.
    path = (str(part) for part in first["loc"] if part not in ("(list)", "(mapping)"))
    field = ".".join(path)[:_LONGEST_FIELD] or "document"
    more = f" [and {len(faults) - 1} more]" if len(faults) > 1 else ""
    return f"field `{field}`: {_fault_of(first, model)}{more}"


def _fault_of(fault: ErrorDetails, model: type[BaseModel]) -> str:
    """What is wrong with a field, and what it wants."""
    kind, value = fault["type"], fault["input"]
    if kind == "extra_forbidden":
        return _unknown_field(fault["loc"], model)
    if kind == "missing":
        return "is required; add it"
    if kind == "literal_error":
        return _not_listed(value, [it for it in fault["ctx"]["expected"].replace(" or ", ", ").split(", ") if it])
    if kind == "too_short" and fault["ctx"]["min_length"] > 1:
        return f"has {fault['ctx']['actual_length']} entries; write at least {fault['ctx']['min_length']}"
    said = fault["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    if kind == "string_pattern_mismatch":
        said = f"must have the form {fault['ctx']['pattern']}"
    told = f"{value!r}: " if isinstance(value, str | int | float) and len(str(value)) <= _LONGEST_VALUE else ""
    return f"{told}{_WANTED.get(kind, said)}"


def _not_listed(value: object, expected: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(str(value)[:_LONGEST_FIELD], [it.strip("'") for it in expected], n=1)
    meant = f"; did you mean '{near[0]}'?" if near else ""
    return f"{str(value)[:_LONGEST_VALUE]!r} must be one of {', '.join(expected)}{meant}"


def _unknown_field(location: tuple[int | str, ...], model: type[BaseModel]) -> str:
    import difflib

    for part in location[:-1]:
        # The number of a list's item and the key of a mapping are not fields.
        if field := model.model_fields.get(str(part)):
            model = next(_models_in(field.annotation), model)
    known = sorted(info.alias or name for name, info in model.model_fields.items())
    near = difflib.get_close_matches(str(location[-1])[:_LONGEST_FIELD], known, n=1)
    remedy = f"did you mean `{near[0]}`?" if near else "remove it or correct its spelling"
    return f"unknown field; {remedy} (known: {', '.join(known)})"


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
