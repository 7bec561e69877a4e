"""Pictures of a built site, for looking at: every kind of page, in the light, in the dark and as wide as a phone.

    python -m scripts.screenshots demo/site pictures
    python -m scripts.screenshots demo/site pictures --only cell,case --mode dark

Needs chromium or google-chrome. The site is served on this machine, as a reader meets it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MODES = {"light": (1360, 1, False), "dark": (1360, 1, True), "phone": (390, 2, False)}
"""Width in CSS pixels, scale, and whether it is dark."""
KINDS = {
    "front": "index.html", "costs": "costs.html", "matrix": "matrix.html", "versus": "versus.html",
    "compare": "compare.html", "cases": "cases.html", "news": "news.html", "decisions": "decisions.html",
    "method": "method.html", "data": "data.html", "part": "take-part.html", "case": "cases/*.html",
    "agent": "agents/*.html", "cell": "runs/*/*.html", "trace": "traces/*/*.html", "plots": "plots.html",
    "gone": "404.html",
}  # fmt: skip


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default=",".join(KINDS), help=f"kinds: {', '.join(KINDS)}")
    parser.add_argument("--mode", default=",".join(MODES), help="light, dark, phone")
    parser.add_argument("--page", help="this page in place of the first of its kind; with #step-3 that step is open")
    parser.add_argument("--height", type=int, default=1800, help="CSS pixels")
    options = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("needs chromium: apt-get install chromium")
    pages = {"page": options.page} if options.page else _pages(options.site, options.only.split(","))
    options.out.mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(options.site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with server, tempfile.TemporaryDirectory() as profile:
        for kind, page in pages.items():
            for mode in options.mode.split(","):
                place = options.out / f"{kind}-{mode}.png"
                width, scale, dark = MODES[mode]
                command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
                command += [f"--user-data-dir={profile}", f"--window-size={max(width, 500)},{options.height}"]
                command += [f"--force-device-scale-factor={scale}", f"--screenshot={place}", "--no-first-run"]
                command += [f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--virtual-time-budget=4000"]
                address = f"http://127.0.0.1:{server.server_address[1]}/{page}"
                subprocess.run([*command, _framed(options.site, address, width)], capture_output=True, check=True)
                print(place)
        (options.site / "framed.html").unlink(missing_ok=True)


def _pages(site: Path, kinds: list[str]) -> dict[str, str]:
    """One page of each kind: of several the largest, which has most to show."""
    found = {}
    for kind in kinds:
        pages = sorted(site.glob(KINDS[kind]), key=lambda it: -it.stat().st_size)
        if pages:
            found[kind] = str(pages[0].relative_to(site))
    return found


def _framed(site: Path, address: str, width: int) -> str:
    """A window is never narrower than 500 pixels: a phone is a frame within one."""
    if width >= 500:
        return address
    style = f"<style>body{{margin:0}}iframe{{width:{width}px;height:100vh;border:0}}</style>"
    (site / "framed.html").write_text(f'<!doctype html>{style}<iframe src="{address}"></iframe>')
    return address.split("/", 3)[0] + "//" + address.split("/")[2] + "/framed.html"


if __name__ == "__main__":
    main()
