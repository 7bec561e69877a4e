"""Cites in every sentence the first work that a search for the sentence finds.

    python bibtex_generation.py paragraph.txt

writes cited.tex (the paragraph with cite commands) and references.bib.
"""

import json
import os
import re
import sys
import urllib.parse
import urllib.request
from pathlib import Path


def get(path: str, **given: str) -> bytes:
    """What the search interface answers."""
    address = os.environ["SCHOLAR_URL"].rstrip("/") + path + ("?" + urllib.parse.urlencode(given) if given else "")
    with urllib.request.urlopen(address, timeout=60) as answer:
        return answer.read()


def search(text: str) -> list[dict]:
    return json.loads(get("/search", engine="google_scholar", q=text))["organic_results"]


def bibtex(result_id: str) -> str:
    links = json.loads(get("/search", engine="google_scholar_cite", q=result_id))["links"]
    return get(next(it["link"] for it in links if it["name"] == "BibTeX")).decode()


def main() -> None:
    paragraph = Path(sys.argv[1]).read_text().strip()
    cited, entries = [], {}
    for sentence in re.split(r"(?<=[.!?])\s+", paragraph):
        hits = search(sentence)
        if hits:
            key = hits[0]["result_id"]
            entries.setdefault(key, bibtex(key))
            sentence = f"{sentence[:-1]} \\cite{{{key}}}{sentence[-1]}"
        cited.append(sentence)
    Path("cited.tex").write_text(" ".join(cited) + "\n")
    Path("references.bib").write_text("\n".join(entries.values()))


if __name__ == "__main__":
    main()
