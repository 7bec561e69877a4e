"""An old address of a cell, whose page newer cells have taken the place of, in a real browser."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bench.pages.build import SiteOptions, write_site
from bench.stats import RecordResults
from tests.helpers.cells import not_here
from tests.helpers.pages import SITE, cases_of
from tests.helpers.records import make_record

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.browser


class LikePages(SimpleHTTPRequestHandler):
    """As GitHub Pages: below a folder, and 404.html for whatever is not there."""

    def translate_path(self, path: str) -> str:
        return super().translate_path(path.removeprefix("/board"))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        del message, explain
        page = Path(self.directory, "404.html").read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args


@pytest.mark.parametrize(
    ("address", "case"),
    [
        ("runs/night-1/nan_loss-react-1-0123456789abcdef.html", "nan_loss"),
        ("runs/night-1/nan_loss-debug-react-1-0123456789abcdef.html", "nan_loss-debug"),
        ("runs/night-1/another-react-1-0123456789abcdef.html", ""),
        ("runs/$(touch%20x)/nan_loss-react-1-0123456789abcdef.html", ""),
        ("runs/%22%3Bls/nan_loss-react-1-0123456789abcdef.html", ""),
    ],
)
def test_an_address_of_a_cell_that_has_no_page_any_more_leads_to_its_case(
    tmp_path: Path, address: str, case: str
) -> None:
    if BROWSER is None:
        not_here("chromium: neither chromium nor google-chrome is installed (apt-get install chromium)")
    records = [make_record(case=name) for name in ("nan_loss", "nan_loss-debug")]
    options = SiteOptions(base="https://example.org/board/")
    write_site(partial(RecordResults, records), cases_of(records), tmp_path / "site", SITE, options)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(LikePages, directory=str(tmp_path / "site")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        found = dumped(f"http://127.0.0.1:{server.server_address[1]}/board/{address}", tmp_path / "profile")
    finally:
        server.shutdown()
        server.server_close()
    told = re.search(r'<p id="gone"(.*?)</p>', found, re.DOTALL)
    assert told
    if case:
        assert "hidden" not in told[1].partition(">")[0]
        assert f"/board/cases/{case}.html#cells" in told[1]
        assert "night-1" in told[1] and f"case_id = '{case}'" in told[1]
    else:
        assert "hidden" in told[1].partition(">")[0]
    assert '<a data-case="nan_loss" href="/board/cases/nan_loss.html#cells">' in found


def dumped(address: str, profile: Path) -> str:
    """The document, once its scripts have run."""
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += [f"--user-data-dir={profile}", "--virtual-time-budget=20000", "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=200).stdout
