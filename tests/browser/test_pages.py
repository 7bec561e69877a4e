"""The site in a real browser: layout, contrast, silence on the network, and hostile text that stays text.

A page of the test's own (served beside the site, so that it may look inside) opens every page in a frame, measures it
and leaves its findings as JSON in the document that the browser prints.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypedDict

import pytest

from bench.pages.build import SiteOptions, write_site
from bench.pages.traces import FolderTraces
from bench.stats import RecordResults
from bench.store import Decision
from tests.helpers.cells import not_here
from tests.helpers.pages import HOSTILE, SITE, cases_of, hostile_records, keep_trace
from tests.helpers.records import START, make_night, make_record
from tests.helpers.sampling import at_night

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.browser
BASE = "https://example.org/"
"""Where the site is said to be, so that it has the page of what is not there."""

PROBE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="static/icon.svg">
<body><pre id="out">not finished</pre><script>
const pages = PAGES, width = WIDTH;
function rgb(text) {
  const parts = text.match(/[\\d.]+/g).map(Number);
  return {r: parts[0], g: parts[1], b: parts[2], a: parts.length > 3 ? parts[3] : 1};
}
function light(c) {
  const f = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  return 0.2126 * f(c.r) + 0.7152 * f(c.g) + 0.0722 * f(c.b);
}
function ground(view, node) {
  for (let at = node; at; at = at.parentElement) {
    const colour = rgb(view.getComputedStyle(at).backgroundColor);
    if (colour.a === 1) return colour;
  }
  return {r: 255, g: 255, b: 255, a: 1};
}
// What a reader does who sorts, filters and compares.
async function act(doc, view) {
  const found = {};
  const board = doc.querySelector('table.board[data-tools]');
  if (board) {
    const heading = board.tHead.rows[0].cells[4];
    heading.querySelector('button').click();
    found.sorted = heading.getAttribute('aria-sort');
    const first = board.tBodies[0].rows;
    found.values = [...first].map(row => Number(row.cells[4].dataset.v));
    const box = doc.querySelector('.tools input[type=search]');
    box.value = 'react'; box.dispatchEvent(new view.Event('input'));
    found.shown = [...first].filter(row => !row.hidden).map(row => row.querySelector('.agent').textContent);
    found.said = doc.querySelector('.tools [role=status]').textContent;
    found.address = view.location.search;
  }
  const catalogue = doc.querySelector('#catalogue[data-tools]');
  if (catalogue) {
    const choose = label => [...doc.querySelectorAll('.tools label')].find(it => it.firstChild.textContent === label);
    const select = choose('Suite').querySelector('select');
    select.value = 'second'; select.dispatchEvent(new view.Event('change'));
    const rows = [...catalogue.querySelectorAll('tbody tr')];
    found.rows = rows.filter(row => !row.hidden && !row.classList.contains('group')).length;
    found.every = rows.filter(row => !row.hidden).every(row => (row.dataset.suite || 'second').includes('second'));
    found.groups = [...catalogue.tBodies].every(body =>
      body.rows[0].hidden === ![...body.rows].slice(1).some(row => !row.hidden));
    found.address = view.location.search;
  }
  if (doc.getElementById('compare')) {
    for (let n = 0; n < 100 && !doc.querySelector('#compared table'); n++) {
      await new Promise(done => setTimeout(done, 20));
    }
    found.compared = doc.querySelectorAll('#compared table').length;
    const third = doc.querySelectorAll('.chooser select')[2];
    third.selectedIndex = 3; third.dispatchEvent(new view.Event('change'));
    found.shared = view.location.search;
  }
  return found;
}
async function look(frame) {
  const doc = frame.contentDocument, view = frame.contentWindow, faint = [];
  let shift = 0;
  new view.PerformanceObserver(list => list.getEntries().forEach(it => { if (!it.hadRecentInput) shift += it.value; }))
    .observe({type: 'layout-shift', buffered: true});
  await new Promise(done => setTimeout(done, 60));
  const moved = shift;
  const step = doc.querySelector('#trace a[data-part^=step]'), kept = doc.querySelector('#trace a[data-part^=file]');
  if (step) {
    step.click();
    for (let n = 0; n < 200 && !doc.querySelector('#steps details[open]'); n++) {
      await new Promise(done => setTimeout(done, 20));
    }
    doc.querySelectorAll('#trace details').forEach(it => { it.open = true; });
  }
  for (const node of doc.body.querySelectorAll('*')) {
    const own = [...node.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !node.getClientRects().length || ['title', 'desc', 'OPTION'].includes(node.tagName)) continue;
    const style = view.getComputedStyle(node);
    const ink = rgb(node instanceof view.SVGElement ? style.fill : style.color), paper = ground(view, node);
    const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faint.push([node.tagName, node.className.toString(), ratio]);
  }
  const clipped = [...doc.querySelectorAll('.frame, .frame tbody td, .frame tbody th')].filter(
    n => n.getClientRects().length && n.scrollWidth > n.clientWidth + 1
  ).map(n => n.className + ': ' + n.textContent.trim().slice(0, 80));
  let violations = [];
  // The file of a trace lets no script in, not even this one: its markup is judged in the page that shows it.
  if (AXE && !view.location.pathname.startsWith('/traces/')) {
    const tag = doc.createElement('script');
    tag.src = '/axe.min.js';
    await new Promise(done => { tag.onload = done; doc.head.append(tag); });
    const said = await view.axe.run(doc, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']});
    violations = said.violations.map(v => v.id + ': ' + v.nodes.slice(0, 2).map(n => n.html.slice(0, 120)).join(' | '));
  }
  const ids = [...doc.querySelectorAll('[id]')].map(n => n.id);
  return {
    violations, styled: doc.querySelectorAll('[style]').length, twice: ids.filter((id, at) => ids.indexOf(id) !== at),
    tools: await act(doc, view), shift: moved,
    opened: step ? [!!kept, doc.querySelectorAll('#steps details').length, !!doc.querySelector('.diff .d-add'),
                    !!doc.querySelector('#log pre'), view.location.hash] : [],
    over: doc.documentElement.scrollWidth - doc.documentElement.clientWidth, title: doc.title, faint, clipped,
    gone: [...doc.querySelectorAll('#gone:not([hidden])')].map(n => n.textContent).join(),
    scripts: [...doc.scripts].filter(n => !n.src || n.textContent).length,
    ground: view.getComputedStyle(doc.body).backgroundColor,
    reached: [...doc.querySelectorAll('a[href], [tabindex="0"], summary')].every(n => n.tabIndex === 0),
  };
}
(async () => {
  const found = {};
  for (const page of pages) {
    const frame = document.createElement('iframe');
    frame.style.width = width + 'px'; frame.style.height = '900px'; frame.src = page;
    const loaded = new Promise(done => frame.onload = done);
    document.body.append(frame);
    await loaded;
    found[page] = await look(frame);
    frame.remove();
  }
  document.getElementById('out').textContent = JSON.stringify(found);
})();
</script>"""


class Look(TypedDict):
    over: float
    title: str
    faint: list[list[object]]
    clipped: list[str]
    scripts: int
    violations: list[str]
    styled: int
    twice: list[str]
    tools: dict[str, Any]
    shift: float
    opened: list[Any]
    gone: str
    ground: str
    reached: bool


@dataclass
class Served:
    """The site behind a real web server that remembers what was asked for."""

    folder: Path
    address: str
    asked: list[tuple[str, int]] = field(default_factory=list)

    def looks(self, profile: Path, width: int, *, dark: bool = False, axe: Path | None = None) -> dict[str, Look]:
        """What is found on pages of every kind; `axe`: axe-core's script, which then runs in each."""
        pages = [path.name for path in sorted(self.folder.glob("*.html")) if path.name != "probe.html"]
        kinds = (
            "cases/*.html", "agents/*.html", "runs/evil/*.html", "runs/night/*noisy*react-1*.html", "traces/*/*",
            "runs/gone/*.html",
        )  # fmt: skip
        for pattern in kinds:
            pages += [str(path.relative_to(self.folder)) for path in sorted(self.folder.glob(pattern))]
        if axe is not None:
            shutil.copy(axe, self.folder / "axe.min.js")
        probe = PROBE.replace("PAGES", json.dumps(pages)).replace("WIDTH", str(width))
        probe = probe.replace("AXE", "true" if axe else "false")
        (self.folder / "probe.html").write_text(probe)
        command = [
            str(BROWSER),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={profile}",
            "--window-size=2000,1000",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--virtual-time-budget=200000",
            "--dump-dom",
            f"{self.address}/probe.html",
        ]
        done = subprocess.run(
            [*command[:1], "--enable-logging=stderr", *command[1:]],
            capture_output=True,
            text=True,
            check=True,
            timeout=400,
        )
        dumped = done.stdout
        assert not re.findall(r".*CONSOLE.*", done.stderr), "the console is empty"
        out = re.search(r'<pre id="out">(.*?)</pre>', dumped, re.DOTALL)
        assert out, dumped[:500]
        found: dict[str, Look] = json.loads(html.unescape(out.group(1)))
        assert set(found) == set(pages)
        return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    if BROWSER is None:
        not_here("chromium: neither chromium nor google-chrome is installed (apt-get install chromium)")
    folder = tmp_path_factory.mktemp("browser") / "site"
    known = make_night("night")
    full = make_record(profile="full", run="night", cost_status="exact", started=START + timedelta(hours=1))
    runs = tmp_path_factory.mktemp("runs")
    evil, *others = hostile_records()
    traced = keep_trace(runs, evil, word=HOSTILE * 3, name=HOSTILE.replace("/", "") + ".py")
    records = [*known, full, traced, *others]
    about = {"why": "It was <b>wrong</b>.", "who": "Ann", "when": "2026-11-21T00:00:00Z"}
    decisions = [Decision(kind="withdrawn", run="night-0", **about), Decision(kind="accepted", run="night-0", **about)]
    options = SiteOptions(base=BASE, traces=FolderTraces(lambda run: runs), decisions=decisions)
    write_site(
        partial(RecordResults, records), cases_of(known, task=HOSTILE * 20, readme=HOSTILE), folder, SITE, options
    )
    # As a server of pages answers for a cell that has none any more.
    gone = folder / "runs" / "gone" / f"{known[0].case.id}-react-1-0123456789abcdef.html"
    gone.parent.mkdir()
    shutil.copy(folder / "404.html", gone)
    asked: list[tuple[str, int]] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            asked.append((self.path, int(code)))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield Served(folder, f"http://127.0.0.1:{server.server_address[1]}", asked)
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("axe")
    packed = (
        subprocess.run(
            ["npm", "pack", "axe-core@4", "--silent"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if shutil.which("npm")
        else None
    )
    if packed is None or packed.returncode:
        not_here("axe-core: npm cannot fetch it")
    with tarfile.open(folder / packed.stdout.strip()) as archive:
        archive.extractall(folder, filter="data")
    return folder / "package" / "axe.min.js"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "dark", "audited"),
    [
        (320, False, False),
        (390, True, True),
        at_night(768, False, False),
        at_night(1280, False, True),
        (1280, True, True),
        at_night(1920, True, False),
    ],
)
def test_every_page_fits_and_can_be_read(
    served: Served, axe: Path, tmp_path: Path, width: int, dark: bool, audited: bool
) -> None:
    looks = served.looks(tmp_path / "profile", width, dark=dark, axe=axe if audited else None)
    assert len(looks) > 20
    wrong = {
        page: said
        for page, look in looks.items()
        if (said := [
            *(["wider than the screen"] if look["over"] > 0 else []),
            *map(str, look["faint"]), *look["clipped"], *look["violations"], *look["twice"],
            *(["cannot be reached"] if not look["reached"] else []),
            *(["has a style attribute"] if look["styled"] else []),
            *([f"its layout shifts by {look['shift']}"] if look["shift"] else []),
        ])
    }  # fmt: skip
    assert not wrong, json.dumps(wrong, indent=1)
    assert {look["ground"] for look in looks.values()} == {"rgb(15, 18, 22)" if dark else "rgb(247, 248, 249)"}


@pytest.mark.slow
def test_tables_sort_and_filter_and_agents_are_compared_with_the_state_in_the_address(
    served: Served, tmp_path: Path
) -> None:
    looks = served.looks(tmp_path / "profile", 1280)
    board, compare = (looks[page]["tools"] for page in ("index.html", "compare.html"))
    assert board["sorted"] == "descending"
    assert board["values"] == sorted(board["values"], reverse=True)
    assert board["shown"] == ["react", "react"]
    assert "rows, sorted by Cost per cell, highest first" in board["said"]
    assert "mini.sort=-5" in board["address"] and "mini.q=react" in board["address"]
    cases = looks["cases.html"]["tools"]
    assert 0 < cases["rows"] < 4 and cases["every"] and cases["groups"] and cases["address"] == "?cases.suite=second"
    assert compare["compared"] == 3
    assert compare["shared"].count("mini%2F") == 3


@pytest.mark.slow
def test_the_page_of_what_is_not_here_is_looked_at_too_and_where_it_tells_of_a_cell(
    served: Served, tmp_path: Path
) -> None:
    looks = served.looks(tmp_path / "profile", 390)
    plain, *told = (looks[page]["gone"] for page in looks if "404" in page or "/gone/" in page)
    assert plain == "" and len(told) == 1
    assert "run gone" in told[0] and "ml-dev-bench results query" in told[0]


@pytest.mark.slow
def test_the_steps_of_a_cell_come_when_a_reader_asks(served: Served, tmp_path: Path) -> None:
    looks = served.looks(tmp_path / "profile", 1280)
    opened = [look["opened"] for look in looks.values() if look["opened"]]
    assert opened == [[True, 4, True, True, "#step-1"]]


@pytest.mark.slow
def test_hostile_text_does_not_run_and_nothing_else_is_asked_for(served: Served, tmp_path: Path) -> None:
    served.asked.clear()
    looks = served.looks(tmp_path / "profile", 1280)
    assert all(look["scripts"] == 0 and look["title"] != "taken" for look in looks.values())
    assert all(status in {200, 304} for _, status in served.asked), [ask for ask in served.asked if ask[1] >= 400]
    kinds = {path.split("?")[0].rpartition(".")[2] for path, _ in served.asked}
    assert kinds <= {"html", "css", "svg", "ico", "js", "json"}
