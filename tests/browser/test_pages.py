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
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypedDict

import pytest

from bench.pages.build import build_site
from tests.helpers.cells import not_here
from tests.helpers.pages import HOSTILE, SITE, cases_of, hostile_records
from tests.helpers.records import START, make_night, make_record

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.browser

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
function look(frame) {
  const doc = frame.contentDocument, view = frame.contentWindow, faint = [];
  for (const node of doc.body.querySelectorAll('*')) {
    const own = [...node.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !node.getClientRects().length || ['title', 'desc'].includes(node.tagName)) continue;
    const style = view.getComputedStyle(node);
    const ink = rgb(node instanceof view.SVGElement ? style.fill : style.color), paper = ground(view, node);
    const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faint.push([node.tagName, node.className.toString(), ratio]);
  }
  const clipped = [...doc.querySelectorAll('.board tbody td, .board tbody th')].filter(
    n => getComputedStyle(n).display !== 'none' && n.scrollWidth > n.clientWidth + 1).map(n => n.textContent.trim());
  return {
    over: doc.documentElement.scrollWidth - doc.documentElement.clientWidth, title: doc.title, faint, clipped,
    scripts: doc.scripts.length, ground: view.getComputedStyle(doc.body).backgroundColor,
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
    found[page] = look(frame);
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
    ground: str
    reached: bool


@dataclass
class Served:
    """The site behind a real web server that remembers what was asked for."""

    folder: Path
    address: str
    asked: list[tuple[str, int]] = field(default_factory=list)

    def looks(self, profile: Path, width: int, *, dark: bool = False) -> dict[str, Look]:
        pages = ["index.html", "cases.html"]
        for pattern in ("cases/*.html", "agents/*.html", "runs/evil/*.html", "runs/night/*noisy*.html"):
            pages += [str(path.relative_to(self.folder)) for path in sorted(self.folder.glob(pattern))]
        probe = PROBE.replace("PAGES", json.dumps(pages)).replace("WIDTH", str(width))
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
            "--window-size=1400,1000",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--virtual-time-budget=60000",
            "--dump-dom",
            f"{self.address}/probe.html",
        ]
        dumped = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
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
    build_site([*known, full, *hostile_records()], cases_of(known, task=HOSTILE * 20, readme=HOSTILE), folder, SITE)
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


@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1280, False), (1280, True)])
def test_every_page_fits_and_can_be_read(served: Served, tmp_path: Path, width: int, dark: bool) -> None:
    looks = served.looks(tmp_path / "profile", width, dark=dark)
    assert len(looks) > 20
    for page, look in looks.items():
        assert look["over"] <= 0, f"{page} is wider than the screen"
        assert look["faint"] == [], page
        assert look["clipped"] == [], page
        assert look["reached"], page
    assert {look["ground"] for look in looks.values()} == {"rgb(15, 18, 22)" if dark else "rgb(247, 248, 249)"}


def test_hostile_text_does_not_run_and_nothing_else_is_asked_for(served: Served, tmp_path: Path) -> None:
    looks = served.looks(tmp_path / "profile", 1280)
    assert all(look["scripts"] == 0 and look["title"] != "taken" for look in looks.values())
    assert all(status in {200, 304} for _, status in served.asked), [ask for ask in served.asked if ask[1] >= 400]
    kinds = {path.split("?")[0].rpartition(".")[2] for path, _ in served.asked}
    assert kinds <= {"html", "css", "svg", "ico"}
