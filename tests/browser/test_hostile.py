"""Two hundred hostile texts in every field, in a real browser, and the cells that a page fetches on demand.

The policy is taken out of the pages: nothing but escaping keeps the texts from running.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypedDict

import pytest

from bench.pages import entries
from bench.pages.build import SiteOptions, write_site
from bench.pages.traces import FolderTraces
from bench.stats import RecordResults
from tests.helpers.cells import not_here
from tests.helpers.pages import SITE, cases_of, hostile_record, hostile_strings, keep_trace

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [pytest.mark.browser, pytest.mark.slow]

GROUP = 20
PROBE = """<!doctype html><meta charset="utf-8"><pre id="out">not finished</pre><script>
const wait = ms => new Promise(done => setTimeout(done, ms));
async function look(doc) {
  doc.querySelectorAll('details').forEach(it => { it.open = true; });
  for (const link of doc.querySelectorAll('a[data-cells], #trace a[data-part]')) link.click();
  for (let n = 0; n < 100 && doc.querySelector('a[data-cells]') && !doc.querySelector('#month'); n++) await wait(20);
  await wait(120);
  const active = [...doc.querySelectorAll('img, iframe, object, form, base, math, meta[http-equiv=refresh]')];
  const told = [...doc.querySelectorAll('*')].flatMap(it => [...it.attributes]).filter(it => it.name.startsWith('on'));
  const month = doc.querySelector('#month');
  return {title: doc.title, active: active.map(it => it.tagName), handlers: told.map(it => it.name),
    fetched: month ? month.tBodies[0].rows.length : 0,
    sortable: month ? month.querySelectorAll('button.sort').length : 0};
}
(async () => {
  const found = {};
  for (const page of PAGES) {
    const frame = document.createElement('iframe');
    frame.src = page;
    const loaded = new Promise(done => { frame.onload = done; });
    document.body.append(frame);
    await loaded;
    found[page] = await look(frame.contentDocument);
    frame.remove();
  }
  document.getElementById('out').textContent = JSON.stringify(found);
})();
</script>"""


class Look(TypedDict):
    title: str
    active: list[str]
    handlers: list[str]
    fetched: int
    sortable: int


def looks(folder: Path, profile: Path) -> dict[str, Look]:
    """What is found on every page in `folder`, without its policy."""
    for path in folder.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text), encoding="utf-8")
    pages = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.html"))
    (folder / "probe.html").write_text(PROBE.replace("PAGES", json.dumps(pages)))

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        command = [
            str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={profile}", "--virtual-time-budget=200000", "--dump-dom",
            f"http://127.0.0.1:{server.server_address[1]}/probe.html",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    finally:
        server.shutdown()
        server.server_close()
    out = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.DOTALL)
    assert out, done.stdout[:500]
    found: dict[str, Look] = json.loads(html.unescape(out.group(1)))
    assert set(found) == set(pages)
    return found


def test_two_hundred_hostile_texts_in_every_field_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if BROWSER is None:
        not_here("chromium: neither chromium nor google-chrome is installed (apt-get install chromium)")
    monkeypatch.setattr(entries, "MOST_CELLS", 2)
    texts = hostile_strings()
    groups = ["\n".join(texts[at : at + GROUP]) for at in range(0, len(texts), GROUP)]
    records = [
        keep_trace(tmp_path, hostile_record(text, trial=at + 1), steps=1, word=text) for at, text in enumerate(groups)
    ]
    cases = [replace(it, title=groups[0], task="\n\n".join(texts), readme=groups[1]) for it in cases_of(records[:1])]
    options = SiteOptions(title=groups[2], traces=FolderTraces(lambda run: tmp_path))
    write_site(partial(RecordResults, records), cases, tmp_path / "site", SITE, options)
    (tmp_path / "site" / "control.html").write_text(
        "<!doctype html><title>x</title><img src=x onerror=\"document.title='taken'\">"
    )
    found = looks(tmp_path / "site", tmp_path / "profile")
    control = found.pop("control.html")
    assert (control["title"], control["active"], control["handlers"]) == ("taken", ["IMG"], ["onerror"])
    assert len(found) > 3 * len(groups)
    wrong = {page: it for page, it in found.items() if it["title"] == "taken" or it["active"] or it["handlers"]}
    assert not wrong, json.dumps(wrong, indent=1)[:3000]
    fetched = {page: (it["fetched"], it["sortable"]) for page, it in found.items() if it["fetched"]}
    assert fetched == {f"cases/{cases[0].id}.html": (len(groups), 9)}, "the cells of a month, fetched and sortable"
