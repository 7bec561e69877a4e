"""A stand-in for the W&B service: what `wandb.init`, `run.log`, `run.finish` and `wandb.Api` need of its protocol.

The client speaks GraphQL (POST /graphql), streams rows to /files/ENTITY/PROJECT/RUN/file_stream and puts files to the
addresses that `createRunFiles` hands out. One route is ours: GET /measurements/RUN gives the values that a run has to
log, so that nobody can know them before the run exists. Every fact the judge needs goes to the journal.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import random
import re
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bench.service import Request, Response, Service

API_KEY = "c0ffee00" * 5
ENTITY = "bench-team"
MAX_BODY = 4_000_000
MAX_RUNS = 200
MAX_ROWS = 10_000

Json = dict[str, Any]


class RefusedError(Exception):
    """A request that the service answers with an error message."""


@dataclass
class Run:
    """One run as the service knows it; `values` are the numbers it was given to log."""

    name: str
    project: str
    number: int
    display_name: str
    created: float
    tags: list[str] = field(default_factory=list)
    notes: str | None = None
    config: str = "{}"
    state: str = "running"
    rows: list[Json] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    summary: Json = field(default_factory=dict)
    logs: int = 0
    values: Json | None = None

    @property
    def storage_id(self) -> str:
        return base64.b64encode(f"Run:v1:{self.name}:{self.project}:{ENTITY}".encode()).decode()


def tracker(request: Request, service: Service) -> Response:
    """Answers one request of the client."""
    if not _authorised(request):
        return _json({"errors": [{"message": "the API key is not known here"}]}, 401)
    parts = [part for part in request.path.split("/") if part]
    try:
        with service.lock:
            return _route(request, service, parts)
    except RefusedError as error:
        return _json({"error": str(error), "errors": [{"message": str(error)}]}, 400)


def _route(request: Request, service: Service, parts: list[str]) -> Response:
    match request.method, parts:
        case "POST", ["graphql"]:
            return _graphql(request, service)
        case "POST", ["files", _, project, name, "file_stream"]:
            _stream(_find(service, project, name), _document(request), service)
            return _json({"exitcode": None, "limits": {}})
        case "PUT", ["storage", *_]:
            return Response(200)
        case "GET", ["measurements", name]:
            return _measurements(service, name)
        case "POST", ["sdk", *_]:
            return Response(200)
    return _json({"error": "no such address"}, 404)


def _authorised(request: Request) -> bool:
    if request.path.startswith(("/sdk/", "/storage/")):  # telemetry and signed uploads come without a key
        return True
    kind, _, secret = (request.headers.get("Authorization") or "").partition(" ")
    if kind.lower() == "bearer":
        return secret == API_KEY
    try:
        return base64.b64decode(secret).decode().partition(":")[2] == API_KEY
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return False


def _json(body: object, status: int = 200) -> Response:
    # A query may ask for an object without saying which of its fields: those that are functions become null.
    text = json.dumps(body, default=lambda _: None)
    return Response(status, body=text.encode(), headers={"Content-Type": "application/json"})


def _document(request: Request) -> Json:
    body = request.body
    try:
        if request.headers.get("Content-Encoding") == "gzip":
            unpacker = zlib.decompressobj(wbits=31)
            body = unpacker.decompress(body, MAX_BODY + 1)
        if len(body) > MAX_BODY:
            raise RefusedError(f"the body is over {MAX_BODY} bytes")
        document = json.loads(body)
    except (ValueError, zlib.error, gzip.BadGzipFile, RecursionError) as error:
        raise RefusedError(f"the body is not JSON: {type(error).__name__}") from error
    if not isinstance(document, dict):
        raise RefusedError("the body is not a JSON object")
    return document


def _runs(service: Service) -> dict[tuple[str, str], Run]:
    runs: dict[tuple[str, str], Run] = service.state.setdefault("runs", {})
    return runs


def _find(service: Service, project: object, name: object) -> Run:
    run = _runs(service).get((str(project), str(name)))
    if run is None:
        raise RefusedError(f"run {project}/{name} does not exist")
    return run


def _note(service: Service, event: str, run: Run, **facts: object) -> None:
    """Journals one fact about a run; `n` gives the order of all facts."""
    service.state["events"] = service.state.get("events", 0) + 1
    if service.state["events"] > 20_000:
        raise RefusedError("too many requests for one trial")
    service.journal(
        {"n": service.state["events"], "event": event, "run_id": run.name, "project": run.project, **facts}
    )


def _measurements(service: Service, name: str) -> Response:
    """Gives the values that a run has to log: the same ones whenever the same run asks."""
    run = next((run for run in _runs(service).values() if run.name == name), None)
    if run is None:
        return _json({"error": f"run {name} does not exist, so nothing was measured"}, 404)
    if run.values is None:
        rng = random.SystemRandom()  # not from the trial's seed: nobody shall be able to work the values out
        run.values = {
            "training_loss": round(rng.uniform(0.2, 1.2), 6),
            "validation_loss": round(rng.uniform(0.2, 1.2), 6),
            "epoch": rng.randrange(3, 90),
        }
        _note(service, "values_issued", run, values=run.values)
    return _json(run.values)


# --- the file stream: history, summary, console and the end of a run ------------------------------------------------


def _stream(run: Run, document: Json, service: Service) -> None:
    files = document.get("files")
    for name, chunk in files.items() if isinstance(files, dict) else ():
        lines, offset = (chunk.get("content"), chunk.get("offset", 0)) if isinstance(chunk, dict) else (None, 0)
        if not isinstance(lines, list) or not isinstance(offset, int) or not 0 <= offset <= MAX_ROWS - len(lines):
            continue
        if name == "wandb-history.jsonl":
            _store_rows(run, [_row(line) for line in lines], offset, service)
        elif name == "wandb-summary.json" and lines:
            run.summary = _row(lines[-1])
        elif name == "wandb-events.jsonl":
            run.events[offset:] = [str(line) for line in lines]
        else:
            run.logs = max(run.logs, offset + len(lines))
    if document.get("complete") is True and run.state == "running":
        run.state = "finished" if document.get("exitcode") == 0 else "failed"
        _note(service, "run_ended", run, state=run.state)


def _row(line: object) -> Json:
    try:
        row = json.loads(line) if isinstance(line, str) else None
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise RefusedError("a line of the stream is not a JSON object")
    return row


def _store_rows(run: Run, rows: list[Json], offset: int, service: Service) -> None:
    """Keeps the rows at their place: a client that sends a chunk again overwrites it."""
    run.rows[offset : offset + len(rows)] = rows
    logged: Json = {}
    for row in rows:
        logged |= {key: value for key, value in row.items() if not key.startswith("_")}
    if logged:
        _note(service, "values_logged", run, values={_text(key): _plain(logged[key]) for key in sorted(logged)[:100]})


def _plain(value: object) -> object:
    """A usual number as it is, anything else as a short text: enough to judge by."""
    usual = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**53
    return value if usual else _text(value)


def _text(value: object, limit: int = 80) -> str:
    """What a client sent, made short and safe to write down."""
    return str(value)[:limit].encode("utf-8", "replace").decode()


# --- GraphQL: the schema --------------------------------------------------------------------------------------------


def _graphql(request: Request, service: Service) -> Response:
    document = _document(request)
    variables = document.get("variables")
    root = {
        "__typename": "Query",
        # Older clients ask which optional fields exist: none.
        "__type": lambda args: {"name": args.get("name"), "fields": [], "inputFields": []},
        "viewer": _viewer(),
        "serverInfo": {"features": [], "cliVersionInfo": {}, "latestLocalVersionInfo": None},
        "entity": lambda args: {"id": ENTITY, "name": ENTITY, "organization": None},
        "project": lambda args: _project(service, args),
        "model": lambda args: _project(service, args),
        "upsertBucket": lambda args: _upsert(service, args),
        "upsertModel": lambda args: {"inserted": False, "model": _project(service, _input(args)), "project": None},
        "createRunFiles": lambda args: _create_files(request, service, _input(args)),
        "markRunFilesUploaded": {"success": True},
    }
    try:
        query = Query(str(document.get("query")), variables if isinstance(variables, dict) else {})
        return _json({"data": query.select(query.operation(document.get("operationName")), root)})
    except (RefusedError, RecursionError) as error:
        return _json({"data": None, "errors": [{"message": str(error)}]})


def _viewer() -> Json:
    user = {"id": "VXNlcjox", "entity": ENTITY, "username": ENTITY, "name": ENTITY, "email": "", "flags": "{}"}
    return user | {"admin": False, "deletedAt": None, "teams": {"edges": []}, "apiKeys": {"edges": []}}


def _input(args: Json) -> Json:
    given = args.get("input")
    return given if isinstance(given, dict) else {}


def _project(service: Service, args: Json) -> Json | None:
    name = args.get("name") or args.get("projectName")
    runs = [run for run in _runs(service).values() if run.project == name]
    if not runs or args.get("entityName") not in (ENTITY, None, ""):
        return None
    one = {run.name: run for run in runs}

    def bucket(args: Json) -> Json | None:
        run = one.get(str(args.get("name")))
        return _bucket(service, run, reading=False) if run else None

    def run_field(args: Json) -> Json | None:
        run = one.get(str(args.get("name")))
        return _bucket(service, run) if run else None

    def listing(args: Json) -> Json:
        if args.get("filters") not in (None, "", "{}"):
            raise RefusedError("filters are not known to this service: list all runs, or ask for one by its id")
        edges = [{"cursor": str(run.number), "node": _bucket(service, run)} for run in runs]
        return {"edges": edges, "totalCount": len(runs), "pageInfo": {"endCursor": None, "hasNextPage": False}}

    return {
        "id": str(name), "internalId": "1", "name": name, "entityName": ENTITY, "readOnly": False,
        "entity": {"id": ENTITY, "name": ENTITY}, "bucket": bucket, "run": run_field,
        "runCount": len(runs), "runs": listing,
    }  # fmt: skip


def _bucket(service: Service, run: Run, reading: bool = True) -> Json:
    """A run as a GraphQL object. With `reading`, handing out its values is journalled as a read."""

    def read(what: str, values: Json) -> None:
        keys = sorted(_text(key) for key in values if not key.startswith("_"))[:100]
        if reading and keys:
            _note(service, "values_read", run, what=what, keys=keys)

    def summary(_: Json) -> str:
        read("summary", run.summary)
        return json.dumps(run.summary)

    def history(args: Json) -> list[str]:
        low, high = args.get("minStep"), args.get("maxStep")
        rows = [row for row in run.rows if _within(row.get("_step"), low, high)]
        read("history", {key: 1 for row in rows for key in row})
        return [json.dumps(row) for row in rows]

    def sampled(args: Json) -> list[list[Json]]:
        specs = args.get("specs")
        answers = [_sample(run, _row(spec)) for spec in specs] if isinstance(specs, list) else []
        read("sampled history", {key: 1 for rows in answers for row in rows for key in row})
        return answers

    steps = [row["_step"] for row in run.rows if isinstance(row.get("_step"), int)]
    keys = {key for row in run.rows for key in row}
    return _facts(run) | {
        "summaryMetrics": summary, "history": history, "sampledHistory": sampled,
        "historyKeys": {"sets": [], "keys": {key: {} for key in keys}, "lastStep": max(steps, default=-1)},
        "parquetHistory": lambda args: {"parquetUrls": [], "liveData": [], "exportNeeded": False},
    }  # fmt: skip


def _facts(run: Run) -> Json:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run.created))
    project = {"id": run.project, "name": run.project, "entity": {"id": ENTITY, "name": ENTITY}}
    tail = json.dumps([json.dumps(row) for row in run.rows[-1:]])
    return {
        "__typename": "Run", "id": run.storage_id, "name": run.name, "displayName": run.display_name,
        "description": None, "notes": run.notes, "tags": run.tags, "config": run.config, "state": run.state,
        "sweepName": None, "group": None, "jobType": None, "commit": None, "readOnly": False, "projectId": "1",
        "createdAt": moment, "heartbeatAt": moment, "stopped": False, "systemMetrics": "{}",
        "wandbConfig": _client_config(run), "historyLineCount": len(run.rows), "eventsLineCount": len(run.events),
        "logLineCount": run.logs, "historyTail": tail, "eventsTail": json.dumps(run.events[-1:]), "project": project,
        "user": {"id": "VXNlcjox", "name": ENTITY, "username": ENTITY}, "events": list(run.events),
    }  # fmt: skip


def _client_config(run: Run) -> str:
    """What the client stored of itself: a run without it counts as never started, and cannot be resumed."""
    try:
        own = json.loads(run.config)["_wandb"]["value"]
        return json.dumps({"t": own["t"]})
    except (ValueError, KeyError, TypeError, RecursionError):
        return "{}"


def _within(step: object, low: object, high: object) -> bool:
    place = step if isinstance(step, int) else 0
    return (not isinstance(low, int) or place >= low) and (not isinstance(high, int) or place < high)


def _sample(run: Run, spec: Json) -> list[Json]:
    """Rows that hold every asked key, like the service's sampled history."""
    wanted = spec.get("keys")
    keys = [key for key in wanted if isinstance(key, str)] if isinstance(wanted, list) else []
    return [{key: row[key] for key in keys} for row in run.rows if all(key in row for key in keys)]


def _upsert(service: Service, args: Json) -> Json:
    """Creates a run, or updates the one that the given storage id or name belongs to."""
    given = _input(args)
    project = str(given.get("modelName") or "uncategorized")
    by_id = {run.storage_id: run for run in _runs(service).values()}
    run = by_id.get(str(given.get("id"))) or _runs(service).get((project, str(given.get("name"))))
    created = run is None
    if run is None:
        run = _create(service, project, given)
    tags, title, config = given.get("tags"), given.get("displayName"), given.get("config")
    if isinstance(tags, list):
        run.tags = [_text(tag) for tag in tags][:100]
    if isinstance(title, str) and title:
        run.display_name = _text(title, 200)
    if isinstance(config, str):
        run.config = config
    if isinstance(summary := given.get("summaryMetrics"), str):
        run.summary = _row(summary)
    if not created and given.get("state") == "running":
        run.state = "running"
    if created or isinstance(tags, list) or title:
        kind = "run_created" if created else "run_updated"
        _note(service, kind, run, name=run.display_name, tags=run.tags, created=run.created)
    return {"bucket": _bucket(service, run, reading=False), "inserted": created}


def _create(service: Service, project: str, given: Json) -> Run:
    number = len(_runs(service)) + 1
    if number > MAX_RUNS:
        raise RefusedError("too many runs for one trial")
    name = str(given.get("name") or f"{random.Random(f'{service.seed}-{number}').getrandbits(40):010x}")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) or not re.fullmatch(r"[A-Za-z0-9_. -]{1,128}", project):
        raise RefusedError("a run id or project name has characters that are not allowed")
    if any(run.name == name for run in _runs(service).values()):
        raise RefusedError(f"run id {name} is taken in another project")
    run = Run(name, project, number, f"run-{number}", time.time())
    _runs(service)[project, name] = run
    return run


def _create_files(request: Request, service: Service, given: Json) -> Json:
    run = _find(service, given.get("projectName"), given.get("runName"))
    host, names = request.headers.get("Host") or "127.0.0.1", given.get("files")
    files = [
        {"name": str(name), "uploadUrl": f"http://{host}/storage/{run.name}/{number}"}
        for number, name in enumerate(names if isinstance(names, list) else ())
    ]
    return {"runID": run.storage_id, "uploadHeaders": [], "files": files}


# --- GraphQL: the language ------------------------------------------------------------------------------------------

TOKEN = re.compile(r'\s*(?:#[^\n]*\n\s*)*("(?:[^"\\\n]|\\.)*"|\.\.\.|[$!@(){}\[\]:=|]|-?\d[\d.eE+-]*|\w+),*')


@dataclass
class Field:
    """A field of a selection: its key in the answer, its arguments and what is selected below it."""

    name: str
    key: str
    args: Json
    below: list[Field | str] | None  # a string names a fragment


class Query:
    """A parsed GraphQL document that picks what it asks for out of nested dictionaries and functions."""

    def __init__(self, text: str, variables: Json) -> None:
        self.tokens = [match.group(1) for match in TOKEN.finditer(text)] + [""]
        self.at, self.variables = 0, dict(variables)
        self.operations: dict[str, list[Field | str]] = {}
        self.fragments: dict[str, list[Field | str]] = {}
        while self._peek():
            self._definition()

    def operation(self, name: object) -> list[Field | str]:
        if isinstance(name, str) and name in self.operations:
            return self.operations[name]
        if not self.operations:
            raise RefusedError("the query holds no operation")
        return next(iter(self.operations.values()))

    def select(self, fields: list[Field | str], source: object) -> Json:
        if not isinstance(source, dict):
            raise RefusedError("a plain value has no fields to select")
        answer: Json = {}
        for item in self._flat(fields):
            if item.name not in source:
                raise RefusedError(f"Cannot query field '{item.name}'")
            value = source[item.name]
            value = value(item.args) if callable(value) else value
            if item.below is not None and isinstance(value, list):
                value = [self.select(item.below, one) for one in value]
            elif item.below is not None and isinstance(value, dict):
                value = self.select(item.below, value)
            answer[item.key] = value
        return answer

    def _flat(self, fields: list[Field | str], depth: int = 0) -> Iterator[Field]:
        for item in fields:
            if isinstance(item, Field):
                yield item
            elif depth > 20 or item not in self.fragments:
                raise RefusedError(f"fragment {item} is unknown or contains itself")
            else:
                yield from self._flat(self.fragments[item], depth + 1)

    def _peek(self) -> str:
        return self.tokens[self.at]

    def _next(self, wanted: str = "") -> str:
        token = self.tokens[self.at]
        if not token or (wanted and token != wanted):
            raise RefusedError(f"Syntax Error: expected {wanted or 'more'}, found {token or 'the end'}")
        self.at += 1
        return token

    def _skip(self, token: str) -> bool:
        found = self._peek() == token
        self.at += found
        return found

    def _definition(self) -> None:
        if self._peek() == "{":
            self.operations[""] = self._selection()
            return
        kind, name = self._next(), self._next() if self._peek() not in ("(", "{") else ""
        if kind == "fragment":
            self._next("on")
            self._next()
            self.fragments[name] = self._selection()
        else:
            if self._skip("("):
                self._declarations()
            self.operations[name] = self._selection()

    def _declarations(self) -> None:
        """Reads `$name: Type = default` up to the bracket; only the defaults matter here."""
        while not self._skip(")"):
            self._next("$")
            name = self._next()
            self._next(":")
            while self._peek() not in ("$", ")", "="):
                self._next()
            if self._skip("="):
                self.variables.setdefault(name, self._value())

    def _selection(self) -> list[Field | str]:
        self._next("{")
        fields: list[Field | str] = []
        while not self._skip("}"):
            if self._skip("..."):
                if self._skip("on"):
                    self._next()
                    fields += self._selection()
                elif self._peek() == "{":
                    fields += self._selection()
                else:
                    fields.append(self._next())
                continue
            fields.append(self._field())
        return fields

    def _field(self) -> Field:
        key = name = self._next()
        if self._skip(":"):
            name = self._next()
        args = self._pairs(")") if self._skip("(") else {}
        while self._skip("@"):  # directives are read over
            self._next()
            if self._skip("("):
                self._pairs(")")
        return Field(name, key, args, self._selection() if self._peek() == "{" else None)

    def _pairs(self, end: str) -> Json:
        pairs: Json = {}
        while not self._skip(end):
            name = self._next()
            self._next(":")
            pairs[name] = self._value()
        return pairs

    def _value(self) -> object:
        token = self._next()
        if token == "$":
            return self.variables.get(self._next())
        if token == "{":
            return self._pairs("}")
        if token == "[":
            values = []
            while not self._skip("]"):
                values.append(self._value())
            return values
        try:
            return json.loads(token)  # strings, numbers, true, false and null are written as in JSON
        except ValueError:
            return token  # an enum value
