"""A chart on a page: its drawing with the words and the numbers that say the same, drawn anew where it has changed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

from markupsafe import Markup

from bench.base.files import write_atomic
from bench.pages import strict_svg
from bench.pages.engine import Engine, Here
from bench.pages.program import version_of
from bench.pages.strict_svg import worded_svg
from bench.pages.vega import Spec

_MOST_CHARTS = 4000


@dataclass(frozen=True)
class Figures:
    """The numbers of a chart as a table."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Chart:
    """A drawing with everything that says the same in words."""

    name: str
    """Begins the ids of its parts: no two charts of a page share it."""
    title: str
    description: str
    sizes: Mapping[str, Markup]
    """SVG by the screen it is for: `wide` and `narrow`, or `any`."""
    figures: Figures


Draw: TypeAlias = Callable[[Spec, str, str, str], Markup]
"""`to_svg`, or what remembers what it drew."""


class ChartCache:
    """Drawings by the digest of their specification: one that has not changed is not drawn again."""

    def __init__(self, folder: Path | None) -> None:
        """`folder`: None keeps nothing."""
        self._folder = folder
        self.engine: Engine = Here()

    def svg(self, chart: Spec, name: str, title: str, description: str) -> Markup:
        """As `to_svg`."""
        return worded_svg(self._drawing(chart, name), name, title, description)

    def _drawing(self, chart: Spec, name: str) -> str:
        if self._folder is None:
            return self.engine.chart(chart, name)
        key = hashlib.sha256(f"{_drawn_by()} {name} {json.dumps(chart, sort_keys=True)}".encode()).hexdigest()
        path = self._folder / key[:2] / f"{key[2:40]}.svg"
        try:
            # What is read here was made by `strict_svg`, which let nothing through but its own elements and attributes.
            found = path.read_bytes().decode()
            os.utime(path)
        except (OSError, ValueError):
            found = ""
        if not (found.startswith("<svg ") and found.endswith("</svg>")):
            found = self.engine.chart(chart, name)
            write_atomic(path, found.encode())
        return found

    def forget_old(self) -> None:
        """Remove what no build has used for long, once there is much of it."""
        files = [path for path in self._folder.rglob("*.*") if path.is_file()] if self._folder is not None else []
        if len(files) > _MOST_CHARTS:
            files.sort(key=lambda it: it.stat().st_mtime, reverse=True)
            for path in files[_MOST_CHARTS:]:
                path.unlink(missing_ok=True)


@cache
def _drawn_by() -> str:
    """What makes an SVG strict, and Vega's version: other ones draw other pictures of the same specification."""
    own = hashlib.sha256(Path(strict_svg.__file__).read_bytes()).hexdigest()
    return f"{own} {version_of('vl-convert-python')}"


def to_svg(chart: Spec, name: str, title: str, description: str) -> Markup:
    """The drawing of `chart`, as `layered` made it; the same chart gives the same bytes. `name` begins its ids."""
    return worded_svg(Here().chart(chart, name), name, title, description)
