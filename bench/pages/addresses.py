"""Where each page is. Addresses are relative to the root of the site; no two things ever share one."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import urljoin

from bench.formats.record import Record
from bench.stats import Entrant

_WORD = r"[a-z0-9.]+(?:[-_][a-z0-9.]+)*"


_PLAIN_MODEL = re.compile(rf"{_WORD}(?:/{_WORD})*")


_PLAIN_AGENT = re.compile(_WORD)


_LONGEST_NAME = 80


def case_page(case: str) -> str:
    return f"cases/{case}.html"


def agent_page(entrant: Entrant) -> str:
    """One page for all profiles.

    Plain names are kept readable: only a `/` becomes `--`, which no plain name holds. Any other name is shortened to
    safe characters and gets a digest after `---`, which no plain name holds either.
    """
    agent, model = entrant.agent, entrant.model
    plain = _PLAIN_AGENT.fullmatch(agent) and (not model or _PLAIN_MODEL.fullmatch(model))
    name = f"{agent}--{model.replace('/', '--')}" if model else agent
    if plain and len(name) <= 2 * _LONGEST_NAME:
        return f"agents/{name}.html"
    digest = hashlib.sha256(f"{agent}\0{model}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"agents/{_safe(name)}---{digest}.html"


def cell_page(record: Record, line: str = "") -> str:
    """Named by content: another attempt at the same cell is another page. `line`: the record's, where it is known."""
    digest = hashlib.sha256((line or record.to_line()).encode()).hexdigest()[:16]
    return f"runs/{record.provenance.run}/{record.case.id}-{record.agent.id}-{record.trial}-{digest}.html"


def root_of(address: str) -> str:
    """The way back from a page to the root of the site."""
    return "../" * address.count("/")


def social_page(entrant: Entrant) -> str:
    """The address of the picture that other sites show beside a link to an agent."""
    return f"social/{agent_page(entrant).rpartition('/')[2].removesuffix('.html')}.png"


def absolute(address: str, base: str) -> str:
    """`base`: where the site is served."""
    return urljoin(base, address)


def stem(entrant: Entrant) -> str:
    """The name of an agent's page and files."""
    return agent_page(entrant).removeprefix("agents/").removesuffix(".html")


def _safe(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST_NAME] or "agent"
