"""A search of scholarly works, and a language model; each phase has a shelf of its own."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable

from shelf import OBVIOUS, Record, Shelf

from bench.casekit.language_model import Answer, Conversation, ScriptedModel
from bench.casekit.services import Request, Response, Service

MOST_RESULTS = 20
INVENTED = (
    "@article{smith2020deep,\n  title={Deep learning of everything},\n  author={Smith, J.},\n"
    "  journal={Nature},\n  year={2020}\n}"
)


def scholar(request: Request, service: Service) -> Response:
    """GET /search (two engines) and GET /scholar.bib, as in google_scholar_API_reference.txt."""
    given = {name: values[-1] for name, values in request.query.items()}
    shelf = _shelf(service)
    if request.method == "GET" and request.path in ("/scholar.enw", "/scholar.ris"):
        return Response(200, b"%0 Generic\n%T This is not BibTeX\n")
    if request.method == "GET" and request.path == "/scholar.bib":
        record = shelf.records.get(given.get("id", ""))
        return Response(200, record.bibtex().encode()) if record else Response(404, b"no such work")
    if request.method != "GET" or request.path != "/search":
        return Response.json({"error": "ask for GET /search or GET /scholar.bib"}, 404)
    if not given.get("q", "").strip():
        return Response.json({"error": "q is missing"}, 400)
    if given.get("engine") == "google_scholar_cite":
        if given["q"] not in shelf.records:
            return Response.json({"error": "no such result_id"}, 404)
        kinds = {"BibTeX": "bib", "EndNote": "enw", "RefMan": "ris"}
        links = [{"name": name, "link": f"/scholar.{kind}?id={given['q']}"} for name, kind in kinds.items()]
        return Response.json({"links": random.Random(given["q"]).sample(links, 3)})
    start, count = given.get("start", "0"), given.get("num", "10")
    if not (start.isdecimal() and count.isdecimal() and len(start + count) < 10):
        return Response.json({"error": "start and num are whole numbers"}, 400)
    found = shelf.search(given["q"][:500])[int(start) :][: min(int(count), MOST_RESULTS)]
    return Response.json({"organic_results": [_shown(place, it) for place, it in enumerate(found, int(start))]})


def _shown(place: int, record: Record) -> dict[str, object]:
    """What a result page has: shortened names, no venue in full."""
    names = [name.split(",")[0] for name in record.fields["author"].split(" and ")]
    venue = record.fields.get("journal") or record.fields["booktitle"]
    summary = f"{', '.join(names)} - {venue[:18]}..., {record.fields['year']}"
    return {"position": place, "title": record.fields["title"], "result_id": record.key, "snippet": record.snippet,
            "publication_info": {"summary": summary}}  # fmt: skip


def _shelf(service: Service) -> Shelf:
    with service.lock:
        if "shelf" not in service.state:
            service.state["shelf"] = Shelf.of(json.loads((service.hidden / f"{service.phase}.json").read_text("utf-8")))
        shelf: Shelf = service.state["shelf"]
        return shelf


def _answer(conversation: Conversation, service: Service) -> Answer:
    """Errors hang on what is asked about alone: other words beside it, or more of it, tell nothing new."""
    text, shelf = " ".join(conversation.last.split()), _shelf(service)
    instruction, _, rest = text.partition(" ")
    known = {sentence: key for paragraph in shelf.paragraphs for sentence, key in paragraph if sentence in text}
    if instruction.strip(":").upper() == "FIND":
        doubted = _doubted(service)
        return Answer("\n".join(it for it, key in known.items() if key or it in doubted))
    if instruction.strip(":").upper() == "FITS":
        sentence, title = _first(known, rest), _first({it.fields["title"] for it in shelf.records.values()}, rest)
        meant = shelf.records.get(known.get(sentence) or "")
        fits, chance = meant is not None and meant.fields["title"] == title, _chance(service, f"{sentence} {title}")
        return Answer("yes" if (fits and chance < 0.95) or chance < 0.1 else "no")
    return Answer(f"Here is a reference that you could cite:\n{INVENTED}")


def _doubted(service: Service) -> set[str]:
    """All of a paragraph's sentences that need no citation but one: the obvious one, where there is one.

    So many in each: who believes the model must not be right by chance.
    """
    obvious, doubted = tuple(it.partition("{")[0] for it in OBVIOUS), set()
    for paragraph in _shelf(service).paragraphs:
        plain = [it for it, key in paragraph if not key]
        doubted |= set(sorted(plain, key=lambda it: (it.startswith(obvious), _chance(service, it)))[:-1])
    return doubted


def _first(texts: Iterable[str], within: str) -> str:
    """That of `texts` which begins first, the longest of several; empty where there is none."""
    return min((it for it in texts if it in within), key=lambda it: (within.find(it), -len(it)), default="")


def _chance(service: Service, about: str) -> float:
    # With the trial's seed: who knows this file is not to know which answers are wrong.
    return random.Random(f"{service.seed} {about}").random()


model = ScriptedModel(script=_answer, models=["reader"])
