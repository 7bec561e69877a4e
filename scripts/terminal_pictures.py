"""Pictures of recorded terminal sessions, for looking at: run, explain, trace, compare and doctor, in every dress.

    python -m scripts.terminal_pictures pictures            # 5 commands x width 80 and 120 x dark and light: 20
    python -m scripts.terminal_pictures pictures --only run --width 80 --ground light

Needs chromium or google-chrome. The sessions are real: two runs are made first, with replayed conversations. The
picture of a run has the screen while cells work above the screen at its end.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from scripts.terminal_screen import Screen, record

WIDTHS = (80, 120)
_TANGO = "000000 cc0000 4e9a06 c4a000 3465a4 75507b 06989a d3d7cf 555753 ef2929 8ae234 fce94f 729fcf ad7fa8 34e2e2"
GROUNDS = {
    "dark": {"text": "#d3d7cf", "ground": "#171421"},
    "light": {"text": "#171421", "ground": "#ffffff"},
}
"""The colours of GNOME's terminal: its yellow and cyan are the hardest to read on white."""
for _palette in GROUNDS.values():
    _palette |= {str(number): f"#{colour}" for number, colour in enumerate(f"{_TANGO} eeeeec".split())}
_PROGRAM = [sys.executable, "-m", "bench"]
_RUN = ["run", "--case", "hello_world", "--case", "parse_logs", "--sandbox", "process", "--trials", "2"]
_AFTER = ["--agent", "react", "--model", "replay/demo", "--jobs", "2"]
SESSIONS = {
    "run": [*_RUN, *_AFTER, "--agent", "nop", "--name", "picture"],
    "explain": ["results", "explain", "runs/before"],
    "trace": ["results", "trace", "runs/after", "hello_world/mini/1"],
    "compare": ["compare", "runs/before", "runs/solved"],
    "doctor": ["doctor"],
}
_PX = 8.43
"""Width of a character at 14 pixels."""
_LINE_PX = 18


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default=",".join(SESSIONS))
    parser.add_argument("--width", type=int, action="append", help=f"columns; default: {WIDTHS}")
    parser.add_argument("--ground", choices=sorted(GROUNDS), action="append", help="default: both")
    options = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("needs chromium: apt-get install chromium")
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        world = Path(made)
        make_runs(world)
        for name, width in product(options.only.split(","), options.width or WIDTHS):
            screens = session(name, width, world)
            (options.out / f"{name}-{width}.txt").write_text("\n\n".join(it.text for it in screens), encoding="utf-8")
            for ground in options.ground or sorted(GROUNDS):
                place = options.out / f"{name}-{width}-{ground}.png"
                photograph(browser, page(screens, ground), place, width, sum(len(it.lines) + 2 for it in screens))
                print(place)


def make_runs(world: Path) -> None:
    """The runs that are explained, traced and compared."""
    for name, agent in {"before": ["--agent", "nop"], "after": _AFTER, "solved": ["--agent", "oracle"]}.items():
        command = [*_PROGRAM, *_RUN, *agent, "--name", name]
        subprocess.run(command, cwd=world, check=False, capture_output=True)


def session(name: str, width: int, world: Path) -> list[Screen]:
    """The screens of a session: of a run the fullest while it works, and the last."""
    shutil.rmtree(world / "runs" / "picture", ignore_errors=True)
    last, fullest = Screen(width), ""
    written = ""
    for _, piece in record([*_PROGRAM, *SESSIONS[name]], width, world):
        last.write(piece)
        written += piece
        if name == "run" and "s of " in last.text and last.text.count("\n") >= fullest.count("\n"):
            fullest, during = last.text, written
    if not fullest:
        return [last]
    before = Screen(width)
    before.write(during)
    return [before, last]


def page(screens: Sequence[Screen], ground: str) -> str:
    """The screens below each other, as one page."""
    palette = GROUNDS[ground]
    style = (
        f"body{{margin:0;padding:12px;background:{palette['ground']};color:{palette['text']}}}"
        f"pre{{margin:0;font:14px/{_LINE_PX}px 'DejaVu Sans Mono',monospace}}hr{{border:1px dashed #888}}"
    )
    parts = "<hr>".join(f"<pre>{screen.html(palette)}</pre>" for screen in screens)
    return f'<!doctype html><meta charset="utf-8"><style>{style}</style>{parts}'


def photograph(browser: str, document: str, place: Path, width: int, lines: int) -> None:
    with tempfile.TemporaryDirectory() as profile:
        source = Path(profile) / "session.html"
        source.write_text(document, encoding="utf-8")
        size = f"{round(width * _PX) + 24},{min(lines * _LINE_PX + 40, 4000)}"
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        command += [f"--user-data-dir={profile}/browser", f"--window-size={size}", f"--screenshot={place}"]
        subprocess.run([*command, source.as_uri()], capture_output=True, check=True)


if __name__ == "__main__":
    main()
