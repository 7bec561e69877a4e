"""Cites, where the model finds that a work is needed, the work that is meant.

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

from llm import ask


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


def needs_a_work(sentence: str) -> bool:
    """Not what the writers did themselves; the model names too many sentences."""
    own = re.search(r"\b(our own|in our|we train|we found|all results|table \d+|the code)\b", sentence, re.IGNORECASE)
    return own is None


def meant(sentence: str) -> str | None:
    """The work that the sentence means, among the first that a search for it finds."""
    dated = re.search(r"(\w+) and (\w+) \((\d{4})\)", sentence)
    names = [word for word in re.findall(r"[A-Z][a-z]{3,}", sentence[1:]) if not dated]
    hits = search(" ".join(dated.groups()) if dated else " ".join(names) or sentence)
    for hit in hits:
        summary = hit["publication_info"]["summary"]
        if dated and all(part in summary for part in dated.groups()):
            return hit["result_id"]
        if names and any(hit["title"].startswith(f"{name}:") for name in names):
            return hit["result_id"]
    for hit in hits[:5]:
        if not dated and not names and ask(f"FITS {sentence}\n{hit['title']}") == "yes":
            return hit["result_id"]
    return hits[0]["result_id"] if hits else None


def main() -> None:
    paragraph = " ".join(Path(sys.argv[1]).read_text().split())
    found = ask("FIND " + paragraph)
    cited, entries = [], {}
    for sentence in re.split(r"(?<=[.!?])\s+", paragraph):
        key = meant(sentence) if sentence in found and needs_a_work(sentence) else None
        if key:
            entries.setdefault(key, bibtex(key))
            sentence = f"{sentence[:-1]} \\cite{{{key}}}{sentence[-1]}"
        cited.append(sentence)
    Path("cited.tex").write_text(" ".join(cited) + "\n")
    Path("references.bib").write_text("\n".join(entries.values()))


if __name__ == "__main__":
    main()
