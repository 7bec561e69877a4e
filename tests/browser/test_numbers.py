"""Scripts and pages write the same figure the same way."""

from __future__ import annotations

import html
import json
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.pages import words
from tests.helpers.pages import SITE

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
PAGE = """<!doctype html><meta charset="utf-8"><pre id="out"></pre><script src="numbers.js"></script><script>
const asked = ASKED;
const said = Object.fromEntries(Object.entries(asked).map(([name, them]) => [name, them.map(figures[name])]));
document.getElementById("out").textContent = JSON.stringify(said);
</script>"""


@pytest.mark.browser
def test_the_scripts_write_figures_as_the_pages_do(tmp_path: Path) -> None:
    """Ties too: 1 of 8 trials is 12.5 per cent, and a price may end in a half of its last digit."""
    rng = random.Random(4)
    shares = [n / 8 for n in range(9)] + [n / 200 for n in range(201)] + [rng.random() for _ in range(200)]
    asked: dict[str, list[float | None]] = {
        "percent": [None, *shares],
        "points": [*shares, *(-value for value in shares if value)],
        "score": [None, *shares],
        "usd": [None, 0.0, 0.0001, 1234567.125, *shares, *(3000 * value for value in shares)],
    }
    writes: dict[str, Callable[[float | None], str]] = {name: getattr(words, name) for name in asked}
    shutil.copy(SITE / "static" / "numbers.js", tmp_path)
    (tmp_path / "page.html").write_text(PAGE.replace("ASKED", json.dumps(asked)))
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"file://{tmp_path / 'page.html'}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=400)
    out = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.DOTALL)
    assert out, done.stdout[:500]
    said = json.loads(html.unescape(out.group(1)))
    assert said == {name: [writes[name](value) for value in them] for name, them in asked.items()}
