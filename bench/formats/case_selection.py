"""Which cases a word means: an id, a pattern, a tag, a category or a kind."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal, Protocol, get_args

from pydantic import Field

from bench.base.errors import UserError
from bench.base.text import meant

Kind = Literal["canonical", "open-ended"]
Selector = Annotated[str, Field(pattern=r"^((tag|category):)?[a-z0-9*?\[][a-z0-9_*?\[\]!/-]{0,127}$")]
"""`id`, `category/id`, a pattern such as `debugging/*`, `tag:vision`, `category:training`, or a kind."""
_KINDS: frozenset[str] = frozenset(get_args(Kind))
_WILD = frozenset("*?[")
_ALL = "`ml-dev-bench cases list` shows all cases"


class Selectable(Protocol):
    """What of a case is looked at besides its folder."""

    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def kind(self) -> Kind: ...


def selected_folders(
    folders: Mapping[str, Path], selectors: Sequence[str], root: Path, load: Callable[[Path], Selectable]
) -> list[Path]:
    """Folders of the cases that `selectors` mean, in their order; those of one selector by category and id.

    Raises `UserError` for a selector that matches nothing. A list of nothing but ids is taken as it is, with what it
    names twice; otherwise each case comes once, where it is first selected.
    """
    if all(map(_is_id, selectors)):
        return [_named(folders, selector, root) for selector in selectors]
    found: list[Path] = []
    for selector in selectors:
        if _is_id(selector):
            path = _named(folders, selector, root)
            found += [path] if path not in found else []
            continue
        matched = sorted(path for path in folders.values() if _matches(path, selector, load))
        if not matched:
            raise UserError(f"no case matches {selector!r}", where=root, remedy=_hint(selector, folders, load))
        found += [path for path in matched if path not in found]
    return found


def _is_id(selector: str) -> bool:
    return not (":" in selector or selector in _KINDS or _WILD & set(selector))


def _matches(path: Path, selector: str, load: Callable[[Path], Selectable]) -> bool:
    kind, colon, word = selector.partition(":")
    if colon and kind == "category":
        return path.parent.name == word
    if colon and kind == "tag":
        return word in load(path).tags
    if selector in _KINDS:
        return load(path).kind == selector
    return fnmatchcase(f"{path.parent.name}/{path.name}" if "/" in selector else path.name, selector)


def _hint(selector: str, folders: Mapping[str, Path], load: Callable[[Path], Selectable]) -> str:
    """What may have been meant."""
    kind, colon, word = selector.partition(":")
    if not colon:
        near = difflib.get_close_matches(selector.rpartition("/")[2].strip("*?"), folders, n=1, cutoff=0.4)
        categories = {path.parent.name for path in folders.values()}
        near += difflib.get_close_matches(selector.partition("/")[0], categories, n=1)
        return f"near it: {', '.join(near)}" if near else _ALL
    known: Iterable[str]
    if kind == "category":
        known = {path.parent.name for path in folders.values()}
    elif kind == "tag":
        known = {tag for path in folders.values() for tag in load(path).tags}
    else:
        return f"write tag:NAME, category:NAME, {', '.join(sorted(_KINDS))}, a pattern or an id"
    return meant(word, known, f"{kind}:")


def _named(folders: Mapping[str, Path], name: str, root: Path) -> Path:
    """The folder of case `name`, given as id or as category/id."""
    wanted = name.rsplit("/", 1)[-1]
    if wanted not in folders or not f"/{folders[wanted].parent.name}/{wanted}".endswith(f"/{name}"):
        near = difflib.get_close_matches(wanted, folders, n=1)
        hint = f"did you mean {near[0]!r}?" if near else _ALL
        if not folders:
            hint = "it does not hold a case; name the folder above the categories"
        raise UserError(f"no case {name!r}", where=root, remedy=hint)
    return folders[wanted]
