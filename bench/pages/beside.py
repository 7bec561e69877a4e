"""Pages of cells made by a process beside this one, which asks the index meanwhile: they need their record alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.base.child import log_tail, python_child, receive_orders
from bench.base.files import temporary_folder
from bench.formats.record import Record
from bench.pages.entries import Entry
from bench.pages.made import file_digest
from bench.pages.render import Renderer
from bench.pages.sheets import CellSheet, SiteFacts
from bench.pages.traces import TraceState

FEWEST = 1_000
"""Pages from which the start of a process pays."""
_PATIENCE_S = 1_800.0
_ON_EVERY_PAGE = ("title", "base", "example")
"""Of `SiteFacts`, what the template of a cell shows."""

Made = Callable[[], dict[str, str]]
"""Waits for the pages: by address their digests."""


def can_be_made_beside(cell: CellSheet) -> bool:
    """Does its page follow from its record and a few words? Not one that shows its trace."""
    return not cell.trace.page


def pays(cells: Sequence[CellSheet]) -> bool:
    """Are there so many, and a processor for them?"""
    return len(cells) >= FEWEST and len(os.sched_getaffinity(0)) > 1


@contextmanager
def made_beside(folder: Path, site: Path, sources: str, facts: SiteFacts, cells: Sequence[CellSheet]) -> Iterator[Made]:
    """Write the pages of `cells` into `folder`, whose own folders exist; they are there when the answer has come.

    site, sources: as `Renderer` takes them.
    """
    with temporary_folder("cells") as orders_folder:
        orders = orders_folder / "cells.jsonl"
        with orders.open("w", encoding="ascii") as file:
            file.writelines(f"{json.dumps(_order(cell))}\n" for cell in cells)
        said = {name: getattr(facts, name) for name in _ON_EVERY_PAGE}
        where = {"folder": str(folder.absolute()), "site": str(site.absolute()), "cells": str(orders)}
        with python_child(__name__, {**where, "sources": sources, "facts": said}) as child:

            def made() -> dict[str, str]:
                answer = child.answer(_PATIENCE_S)
                if not answer:
                    raise RuntimeError(f"the process that makes pages of cells ended: {log_tail(child.log)}")
                return dict(zip((cell.sheet.address for cell in cells), json.loads(answer), strict=True))

            yield made


def _order(cell: CellSheet) -> dict[str, Any]:
    entry = cell.entry
    about = {"address": entry.address, "uncounted": entry.uncounted, "linked": entry.linked}
    return {"line": entry.line, "entry": about, "trace": asdict(cell.trace)}


def main() -> None:
    """In the process beside."""
    orders, answers = receive_orders()
    folder = Path(orders["folder"])
    renderer, facts = Renderer(Path(orders["site"]), orders["sources"]), SiteFacts(**orders["facts"])
    digests = []
    with Path(orders["cells"]).open(encoding="ascii") as file:
        for line in file:
            order = json.loads(line)
            entry = Entry(Record.model_validate_json(order["line"]), line=order["line"], **order["entry"])
            shown = {"site": facts, "entry": entry, "trace": TraceState(**order["trace"]), "told": None}
            page = renderer.page("cell.html", entry.address, shown)
            with (folder / entry.address).open("xb") as target:
                target.write(page)
            digests.append(file_digest(page))
    answers.write(json.dumps(digests).encode())
    answers.close()
