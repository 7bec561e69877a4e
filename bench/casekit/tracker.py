"""For authors of services.py: an experiment tracker that the client `wandb` accepts. Standard library only.

It serves what `wandb.init`, `run.log`, `run.finish` and its queries need of the protocol: the client speaks GraphQL
(POST /graphql), streams rows to /files/ENTITY/PROJECT/RUN/file_stream and puts files to the addresses that
`createRunFiles` hands out. Every fact that a judge needs goes to the journal, handing out a run's values, too.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.casekit.graphql import Query
from bench.casekit.json_requests import Json, RefusedError, parse_object, read_document, short_text
from bench.casekit.services import Request, Response, Service
from bench.casekit.tracked_run import ENTITY, USER, Run, project_facts, rows_between, run_facts, sample

_MOST_RUNS = 200
_MOST_ROWS = 10_000
_NAMES = 100
"""Of values in one event."""
_VIEWER: Json = USER | {"entity": ENTITY, "email": "", "flags": "{}", "admin": False, "deletedAt": None}
_NOTHING: Json = {"edges": []}


@dataclass(frozen=True)
class Tracker:
    """A tracker with one user, who has the key `api_key`."""

    api_key: str
    own_routes: Callable[[Request, Service], Response | None] = lambda request, service: None
    """A case's additions: asked first, under the service's lock; None where the tracker itself is to answer."""
    row_names: Sequence[str] = ()
    """Each row of a history that has numbers of these names is an event `row` of its own: its place `at`, its `values`,
    and `at_s`, what the clock of the training showed at `log`. The client sends the rows of some seconds together."""

    def __call__(self, request: Request, service: Service) -> Response:
        """Answer one request of the client: the service of a case may be the tracker itself."""
        if not self._authorised(request):
            return Response.json({"errors": [{"message": "the API key is not known here"}]}, 401)
        try:
            with service.lock:
                return self.own_routes(request, service) or _route(request, service, self.row_names)
        except (RefusedError, RecursionError) as error:
            return Response.json({"error": str(error), "errors": [{"message": str(error)}]}, 400)

    def _authorised(self, request: Request) -> bool:
        """Whether the request carries the key; telemetry and signed uploads come without one."""
        if request.path.startswith(("/sdk/", "/storage/")):
            return True
        kind, _, secret = (request.headers.get("Authorization") or "").partition(" ")
        if kind.lower() == "bearer":
            return secret == self.api_key
        try:
            return base64.b64decode(secret).decode().partition(":")[2] == self.api_key
        except ValueError:
            return False


def _route(request: Request, service: Service, row_names: Sequence[str]) -> Response:
    match request.method, [part for part in request.path.split("/") if part]:
        case "POST", ["graphql"]:
            host = request.headers.get("Host") or "127.0.0.1"
            return Response.json(_answer_query(service, read_document(request), f"http://{host}/storage"))
        case "POST", ["files", _, project, name, "file_stream"]:
            _receive(service, find_run(service, project, name), read_document(request), row_names)
            return Response.json({"exitcode": None, "limits": {}})
        case ("PUT", ["storage", *_]) | ("POST", ["sdk", *_]):
            return Response()  # uploaded files and telemetry are never asked for again
    return Response.json({"error": "no such address"}, 404)


def all_runs(service: Service) -> dict[str, Run]:
    """The runs of all projects by their name, in the order of their creation."""
    runs: dict[str, Run] = service.state.setdefault("runs", {})
    return runs


def find_run(service: Service, project: object, name: object) -> Run:
    """The run of that name in that project."""
    run = all_runs(service).get(str(name))
    if run is None or run.project != project:
        raise RefusedError(f"run {project}/{name} does not exist")
    return run


def _create_run(service: Service, project: str, name: str) -> Run:
    """A new run, unless the name or the project cannot be one."""
    number = len(all_runs(service)) + 1
    if number > _MOST_RUNS:
        raise RefusedError("too many runs for one trial")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) or not re.fullmatch(r"[A-Za-z0-9_. -]{1,128}", project):
        raise RefusedError("a run id or project name is missing or has characters that are not allowed")
    run = Run(name, project, f"run-{number}")
    all_runs(service)[name] = run
    return run


def note(service: Service, event: str, run: Run, **facts: object) -> None:
    """Journals one fact about a run; `n` gives the order of all facts."""
    number = service.state["events"] = service.state.get("events", 0) + 1
    service.journal({"n": number, "event": event, "run_id": run.name, "project": run.project, **facts})


def _receive(service: Service, run: Run, document: Json, row_names: Sequence[str]) -> None:
    """Takes in one message of the stream."""
    files = document.get("files")
    for name, chunk in files.items() if isinstance(files, dict) else ():
        lines, offset = (chunk.get("content"), chunk.get("offset", 0)) if isinstance(chunk, dict) else (None, 0)
        if not isinstance(lines, list) or not isinstance(offset, int) or not 0 <= offset <= _MOST_ROWS - len(lines):
            continue
        if name == "wandb-history.jsonl":
            rows = [parse_object(line) for line in lines]
            _note_values(service, run, rows, offset)
            _note_rows(service, run, rows, offset, row_names)
            # A client that sends a chunk again overwrites it.
            run.rows[offset : offset + len(rows)] = rows
        elif name == "wandb-summary.json" and lines:
            run.summary = parse_object(lines[-1])
    complete = document.get("complete") is True
    if run.state != "running" and not complete:
        note(service, "run_reopened", run)
    run.state = "running"  # a resumed run streams again after its end, and ends a second time
    if complete:
        run.state = "finished" if document.get("exitcode") == 0 else "failed"
        note(service, "run_ended", run, state=run.state)


def _note_values(service: Service, run: Run, rows: list[Json], offset: int) -> None:
    """For each name the last value, in which row it was, and in how many: a hundred names an event."""
    logged = {key: (at, value) for at, row in enumerate(rows, offset) for key, value in row.items() if key[:1] != "_"}
    counts = Counter(key for row in rows for key in row)
    names = sorted(logged)
    for first in range(0, len(names), _NAMES):
        some = {short_text(key): key for key in names[first : first + _NAMES]}
        values = {short: _plain(logged[key][1]) for short, key in some.items()}
        # A client sends the rows of some seconds together.
        times = {short: counts[key] for short, key in some.items()}
        at = {short: logged[key][0] for short, key in some.items()}
        note(service, "values_logged", run, values=values, times=times, at=at)


def _note_rows(service: Service, run: Run, rows: list[Json], offset: int, names: Sequence[str]) -> None:
    for at, row in enumerate(rows, offset):
        if values := {name: _plain(row[name]) for name in names if isinstance(row.get(name), int | float)}:
            note(service, "row", run, at=at, values=values, at_s=_plain(row.get("_timestamp")))


def _plain(value: object) -> object:
    """A usual number as it is, anything else as a short text: enough to judge by."""
    usual = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**53
    return value if usual else short_text(value)


def _answer_query(service: Service, document: Json, storage: str) -> Json:
    """The answer to a query; `storage` is the address below which files may be put."""
    variables = document.get("variables")
    root = {
        "viewer": _VIEWER | {"teams": _NOTHING, "apiKeys": _NOTHING},
        "serverInfo": {"features": []},
        "entity": {"organization": None},
        "project": lambda args: _project(service, args),
        "model": lambda args: _project(service, args),
        "upsertBucket": lambda args: _upsert(service, _input(args)),
        "createRunFiles": lambda args: _create_files(service, _input(args), storage),
        "markRunFilesUploaded": {"success": True},
    }
    try:
        answer = Query(str(document.get("query")), variables if isinstance(variables, dict) else {}).answer(root)
        # A query may ask for an object without saying which of its fields: those that are functions become null.
        return {"data": json.loads(json.dumps(answer, default=lambda _: None))}
    except (RefusedError, RecursionError) as error:
        return {"data": None, "errors": [{"message": str(error)}]}


def _input(args: Json) -> Json:
    given = args.get("input")
    return given if isinstance(given, dict) else {}


def _project(service: Service, args: Json) -> Json | None:
    name = args.get("name")
    runs = {run.name: run for run in all_runs(service).values() if run.project == name}
    if not runs or args.get("entityName") not in (ENTITY, None, ""):
        return None

    def one(args: Json, reading: bool = True) -> Json | None:
        run = runs.get(str(args.get("name")))
        return _node(service, run, reading) if run else None

    def listing(args: Json) -> Json:
        if args.get("filters") not in (None, "", "{}"):
            raise RefusedError("filters are not known to this service: list all runs, or ask for one by its id")
        edges = [{"cursor": run.name, "node": _node(service, run)} for run in runs.values()]
        return {"edges": edges, "pageInfo": {"endCursor": None, "hasNextPage": False}}

    # The client asks for a `bucket` when it resumes a run, which is no read of values.
    return project_facts(str(name)) | {
        "internalId": "1", "entityName": ENTITY, "readOnly": False, "runCount": len(runs),
        "run": one, "bucket": lambda args: one(args, reading=False), "runs": listing,
    }  # fmt: skip


def _node(service: Service, run: Run, reading: bool = True) -> Json:
    """A run as a GraphQL object. With `reading`, handing out its values is journalled as a read."""

    def read(what: str, rows: list[Json]) -> None:
        keys = sorted({short_text(key) for row in rows for key in row if not key.startswith("_")})[:100]
        if reading and keys:
            note(service, "values_read", run, what=what, keys=keys)

    def summary(_: Json) -> str:
        read("summary", [run.summary])
        return json.dumps(run.summary)

    def history(args: Json) -> list[str]:
        rows = rows_between(run, args.get("minStep"), args.get("maxStep"))
        read("history", rows)
        return [json.dumps(row) for row in rows]

    def sampled(args: Json) -> list[list[Json]]:
        specs = args.get("specs")
        answers = [sample(run, parse_object(spec)) for spec in specs] if isinstance(specs, list) else []
        read("sampled history", [row for rows in answers for row in rows])
        return answers

    return run_facts(run) | {"summaryMetrics": summary, "history": history, "sampledHistory": sampled}


def _upsert(service: Service, given: Json) -> Json:
    """Creates a run, or updates the one that the given storage id or name belongs to."""
    name, project = str(given.get("name") or ""), str(given.get("modelName") or "uncategorized")
    by_id = {run.storage_id: run for run in all_runs(service).values()}
    run = by_id.get(str(given.get("id"))) or all_runs(service).get(name)
    inserted = run is None
    if run is None:
        run = _create_run(service, project, name)
    elif given.get("modelName") and run.project != project:
        raise RefusedError(f"run id {name} is taken in another project")
    if isinstance(tags := given.get("tags"), list):
        run.tags = [short_text(tag) for tag in tags][:100]
    if isinstance(title := given.get("displayName"), str) and title:
        run.display_name = short_text(title, 200)
    if isinstance(config := given.get("config"), str):
        run.config = config
    if isinstance(summary := given.get("summaryMetrics"), str):
        run.summary = parse_object(summary)
    kind = "run_created" if inserted else "run_updated"
    note(service, kind, run, name=run.display_name, tags=run.tags, created=run.created)
    return {"bucket": _node(service, run, reading=False), "inserted": inserted}


def _create_files(service: Service, given: Json, storage: str) -> Json:
    run, names = find_run(service, given.get("projectName"), given.get("runName")), given.get("files")
    files = [
        {"name": str(name), "uploadUrl": f"{storage}/{run.name}/{number}"}
        for number, name in enumerate(names if isinstance(names, list) else ())
    ]
    return {"runID": run.storage_id, "uploadHeaders": [], "files": files}
