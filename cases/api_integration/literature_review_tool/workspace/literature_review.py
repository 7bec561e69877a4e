"""Writes report.json for a question: the first ten hits of the question itself, and what the model says of them.

    python literature_review.py "detecting hallucinations of language models"
"""

import json
import os
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from pathlib import Path

from llm import ask

ATOM = "{http://www.w3.org/2005/Atom}"


def search(query: str, start: int = 0, count: int = 10) -> list[dict[str, str]]:
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


def main() -> None:
    query = sys.argv[1]
    papers = search(f"all:{query}")
    listed = [
        {"id": paper["id"], "title": paper["title"], "summary": ask("SUMMARISE " + paper["abstract"])} for paper in papers
    ]
    conclusion = ask("CONCLUDE " + query + "\n" + "\n".join(paper["summary"] for paper in listed))
    report = {"query": query, "papers": listed, "conclusion": conclusion}
    Path("report.json").write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
