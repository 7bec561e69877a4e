"""A library with arXiv's interface, and a language model; each phase has a library of its own."""

from __future__ import annotations

import json
from html import escape

from library import Library, Paper
from reader import Reader
from search import QueryError, Search

from bench.casekit.language_model import Answer, Conversation, ScriptedModel
from bench.casekit.services import Request, Response, Service

MOST_RESULTS = 25


def arxiv(request: Request, service: Service) -> Response:
    """GET /api/query as in arxiv_API_reference.txt."""
    if request.method != "GET" or request.path.rstrip("/") != "/api/query":
        return Response(404, b"ask for GET /api/query")
    given = {name: values[-1] for name, values in request.query.items()}
    try:
        papers = _found(_search(service), given)
        start, count = _whole(given, "start", 0), min(_whole(given, "max_results", 10), MOST_RESULTS)
    except QueryError as fault:
        return _feed([], 0, 0, str(fault), 400)
    return _feed(papers[start : start + count], len(papers), start)


def _found(search: Search, given: dict[str, str]) -> list[Paper]:
    ids = [it.strip().split("v")[0] for it in given.get("id_list", "").split(",") if it.strip()]
    query = given.get("search_query", "").strip()
    if not ids and not query:
        raise QueryError("search_query or id_list is missing")
    found = search.ranked(query) if query else ids
    papers = [search.papers[it] for it in found if it in search.papers and (not ids or it in ids)]
    by, order = given.get("sortBy", "relevance"), given.get("sortOrder", "descending")
    if by not in ("relevance", "submittedDate", "lastUpdatedDate") or order not in ("ascending", "descending"):
        raise QueryError("sortBy is relevance, submittedDate or lastUpdatedDate; sortOrder ascending or descending")
    if by != "relevance":
        return sorted(papers, key=lambda it: (it.date, it.id), reverse=order == "descending")
    return papers if order == "descending" else papers[::-1]


def _whole(given: dict[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default))
    if not text.isdecimal() or len(text) > 6:
        raise QueryError(f"{name} must be a whole number of 0 or more")
    return int(text)


def _search(service: Service) -> Search:
    with service.lock:
        if "search" not in service.state:
            service.state["search"] = Search(_library(service).papers)
        search: Search = service.state["search"]
        return search


def _library(service: Service) -> Library:
    return Library.of(json.loads((service.hidden / f"{service.phase}.json").read_text("utf-8")))


def _feed(papers: list[Paper], total: int, start: int, error: str = "", status: int = 200) -> Response:
    entries = [_entry(paper) for paper in papers]
    if error:
        entries = [f"<entry><title>Error</title><summary>{escape(error)}</summary></entry>"]
    feed = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<feed xmlns="http://www.w3.org/2005/Atom" xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/">\n'
        f"<title>ArXiv Query</title><opensearch:totalResults>{total}</opensearch:totalResults>"
        f"<opensearch:startIndex>{start}</opensearch:startIndex>"
        f"<opensearch:itemsPerPage>{len(papers)}</opensearch:itemsPerPage>\n" + "\n".join(entries) + "\n</feed>\n"
    )
    return Response(status, feed.encode(), {"Content-Type": "application/atom+xml"})


def _entry(paper: Paper) -> str:
    authors = "".join(f"<author><name>{escape(name)}</name></author>" for name in paper.authors)
    return (
        f"<entry><id>http://arxiv.org/abs/{paper.id}v{paper.version}</id><published>{paper.date}T00:00:00Z</published>"
        f"<updated>{paper.date}T00:00:00Z</updated><title>{escape(paper.title)}</title>"
        f'<summary>{escape(paper.abstract)}</summary>{authors}<category term="{paper.category}"/></entry>'
    )


def _answer(conversation: Conversation, service: Service) -> Answer:
    with service.lock:
        if "reader" not in service.state:
            service.state["reader"] = Reader(_library(service), service.seed)
        reader: Reader = service.state["reader"]
    return Answer(reader.answer(conversation.last))


model = ScriptedModel(script=_answer, models=["reader"])
