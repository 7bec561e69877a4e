"""Writes report.json for a question: searched under all names, ranked by the model, with summaries that were checked.

    python literature_review.py "detecting hallucinations of language models"
"""

import json
import os
import re
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from pathlib import Path

from llm import ask

ATOM = "{http://www.w3.org/2005/Atom}"
PAGE = 25
MOST_RATED = 120


def search(query: str, start: int = 0, count: int = PAGE) -> list[dict[str, str]]:
    """Papers with id, title and abstract."""
    asked = urllib.parse.urlencode({"search_query": query, "start": start, "max_results": count})
    with urllib.request.urlopen(f"{os.environ['ARXIV_URL'].rstrip('/')}/api/query?{asked}", timeout=60) as answer:
        feed = ET.fromstring(answer.read())
    return [
        {
            "id": entry.findtext(f"{ATOM}id").rsplit("/", 1)[-1].split("v")[0],
            "title": entry.findtext(f"{ATOM}title"),
            "abstract": entry.findtext(f"{ATOM}summary"),
        }
        for entry in feed.iter(f"{ATOM}entry")
    ]


def all_pages(query: str, most: int) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    while len(found) < most and (page := search(query, len(found))):
        found += page
    return found


def candidates(query: str) -> list[dict[str, str]]:
    """Papers under any name of everything that the question speaks of; first those that have all of it."""
    things = [[name.strip() for name in line.split(";")] for line in ask("NAMES " + query).splitlines() if ";" in line]
    anywhere = [" OR ".join(f'all:"{name}"' for name in names) for names in things]
    queries = [" AND ".join(f"({one})" for one in anywhere)] if anywhere else []
    plain = re.sub(r"[^\w\s]", " ", query)
    found: dict[str, dict[str, str]] = {}
    for one in [*queries, plain, *anywhere]:
        for paper in all_pages(one, MOST_RATED // 2):
            found.setdefault(paper["id"], paper)
    return list(found.values())[:MOST_RATED]


def rating(query: str, paper: dict[str, str]) -> int:
    match = re.search(r"\d+", ask(f"RATE {query}\n{paper['title']}\n{paper['abstract']}"))
    return int(match.group()) if match else 0


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+|\d+(?:\.\d+)?", text.lower())


def checked(summary: str, abstract: str) -> str:
    """The sentences of the summary whose numbers and most of whose longer words are in the abstract."""
    known = words(abstract)
    stems = {word[:5] for word in known}
    kept = []
    for sentence in re.split(r"(?<=[.!?])\s+", summary.strip()):
        found = words(sentence)
        longer = [word for word in found if len(word) > 4]
        numbers_there = all(word in known for word in found if word[0].isdigit())
        if numbers_there and sum(word[:5] in stems for word in longer) >= 0.6 * len(longer):
            kept.append(sentence)
    return " ".join(kept)


def main() -> None:
    query = sys.argv[1]
    papers = sorted(candidates(query), key=lambda paper: -rating(query, paper))[:10]
    listed = [
        {
            "id": paper["id"],
            "title": paper["title"],
            "summary": checked(ask("SUMMARISE " + paper["abstract"]), paper["abstract"]),
        }
        for paper in papers
    ]
    conclusion = ask("CONCLUDE " + query + "\n" + "\n".join(paper["summary"] for paper in listed))
    report = {"query": query, "papers": listed, "conclusion": conclusion}
    Path("report.json").write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
