"""Building the site: into a fresh folder, which then takes the place of the old one."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench.errors import UserError
from bench.pages.address import agent_page, case_page
from bench.pages.agent_view import agent_view
from bench.pages.board import make_board
from bench.pages.case_view import case_view
from bench.pages.export import data_files
from bench.pages.model import Board, CaseInfo, Entry
from bench.pages.render import Renderer
from bench.record import Record
from bench.stats import Entrant

TITLE = "ML development benchmark"
MARKER = ".ml-dev-bench-site"
"""In every folder this module made: only such a folder is ever replaced."""


def build_site(
    records: Iterable[Record], cases: Sequence[CaseInfo], out: Path, site: Path, title: str = TITLE
) -> list[Path]:
    """Write the whole site to `out`, from the sources in `site`; the paths of its files.

    A reader sees the old site or the new one, never a part of one. The same records give the same bytes.
    """
    _check_replaceable(out)
    for case in cases:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", case.id):
            raise UserError(f"`{case.id}` cannot name a page", remedy="use 1 to 64 of a-z, 0-9, _ and -")
    board = make_board(records, cases, title)
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".new", dir=out.parent))
    try:
        written = [_write(fresh, path, content) for path, content in site_files(board, site)]
        fresh.chmod(0o755)
        _swap(fresh, out)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return sorted(out / path for path in written)


def site_files(board: Board, site: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of the site: its address and its content."""
    renderer = Renderer.of(site)
    yield MARKER, b""
    for path in sorted((site / "static").iterdir()):
        yield f"static/{path.name}", path.read_bytes()
    yield from data_files(board).items()
    for name in ("index.html", "cases.html"):
        yield name, renderer.page(name, name, {"board": board})
    yield from _case_pages(board, renderer)
    yield from _agent_pages(board, renderer)
    for entry in board.entries:
        yield entry.address, renderer.page("cell.html", entry.address, {"board": board, "entry": entry})


def _case_pages(board: Board, renderer: Renderer) -> Iterator[tuple[str, bytes]]:
    cells: dict[str, list[Entry]] = defaultdict(list)
    for entry in board.entries:
        cells[entry.record.case.id].append(entry)
    for case in board.pages.values():
        place = case_page(case.id)
        yield place, renderer.page("case.html", place, {"board": board, "view": case_view(board, case, cells[case.id])})


def _agent_pages(board: Board, renderer: Renderer) -> Iterator[tuple[str, bytes]]:
    entries = {id(entry.record): entry for entry in board.entries}
    profiles: dict[str, list[Entrant]] = defaultdict(list)
    for section in board.sections:
        for row in section.places:
            profiles[agent_page(row.standing.entrant)].append(row.standing.entrant)
    for place, entrants in profiles.items():
        view = agent_view(board, entrants, entries)
        yield place, renderer.page("agent.html", place, {"board": board, "view": view})


def _write(folder: Path, path: str, content: bytes) -> str:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:  # two things at one address would be a fault of ours
        file.write(content)
    return path


def _check_replaceable(out: Path) -> None:
    if not os.path.lexists(out):
        return
    if not out.is_dir() or out.is_symlink() or (any(out.iterdir()) and not (out / MARKER).is_file()):
        raise UserError("exists and is no site of ours", where=out, remedy="name a new or empty folder")


def _swap(fresh: Path, out: Path) -> None:
    """Two renames; should the second fail, the old site comes back."""
    if not out.exists():
        fresh.rename(out)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".old", dir=out.parent))
    out.rename(old / "site")
    try:
        fresh.rename(out)
    except OSError:
        (old / "site").rename(out)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
