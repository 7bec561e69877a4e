"""What can be asked by GraphQL: the user, projects and runs. Handing out a run's values is journalled as a read."""

from __future__ import annotations

import json
import time

from tracker_graphql import Query
from tracker_store import ENTITY, Run, all_runs, create_run, find_run, note
from tracker_wire import Json, RefusedError, parse_object, short_text

from bench.casekit.services import Service

USER: Json = {"id": "VXNlcjox", "name": ENTITY, "username": ENTITY}
VIEWER: Json = USER | {"entity": ENTITY, "email": "", "flags": "{}", "admin": False, "deletedAt": None}
NOTHING: Json = {"edges": []}


def answer_query(service: Service, document: Json, storage: str) -> Json:
    """The answer to a query; `storage` is the address below which files may be put."""
    variables = document.get("variables")
    root = {
        "viewer": VIEWER | {"teams": NOTHING, "apiKeys": NOTHING},
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
    return _project_facts(str(name)) | {
        "internalId": "1", "entityName": ENTITY, "readOnly": False, "runCount": len(runs),
        "run": one, "bucket": lambda args: one(args, reading=False), "runs": listing,
    }  # fmt: skip


def _project_facts(name: str) -> Json:
    return {"id": name, "name": name, "entity": {"id": ENTITY, "name": ENTITY}}


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
        rows = _rows(run, args.get("minStep"), args.get("maxStep"))
        read("history", rows)
        return [json.dumps(row) for row in rows]

    def sampled(args: Json) -> list[list[Json]]:
        specs = args.get("specs")
        answers = [_sample(run, parse_object(spec)) for spec in specs] if isinstance(specs, list) else []
        read("sampled history", [row for rows in answers for row in rows])
        return answers

    return _run_facts(run) | {"summaryMetrics": summary, "history": history, "sampledHistory": sampled}


def _run_facts(run: Run) -> Json:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run.created))
    steps = [row["_step"] for row in run.rows if isinstance(row.get("_step"), int)]
    return {
        "id": run.storage_id, "name": run.name, "displayName": run.display_name, "state": run.state, "tags": run.tags,
        "config": run.config, "description": None, "notes": None, "sweepName": None, "group": None, "jobType": None,
        "commit": None, "readOnly": False, "createdAt": moment, "heartbeatAt": moment, "systemMetrics": "{}",
        "user": USER, "project": _project_facts(run.project), "projectId": "1", "historyLineCount": len(run.rows),
        "historyKeys": {"keys": {key: {} for row in run.rows for key in row}, "lastStep": max(steps, default=-1)},
        "parquetHistory": {"parquetUrls": [], "liveData": []}, "events": [],
        # What a client wants to know before it resumes the run; without its own mark "t" it takes it for not begun.
        "historyTail": json.dumps([json.dumps(row) for row in run.rows[-1:]]), "wandbConfig": '{"t": {}}',
        "logLineCount": 0, "eventsLineCount": 0, "eventsTail": "[]",
    }  # fmt: skip


def _rows(run: Run, low: object, high: object) -> list[Json]:
    """The rows from step `low` up to, but without, step `high`; what is no number sets no limit."""
    first = low if isinstance(low, int) else 0
    steps = [(row, row["_step"] if isinstance(row.get("_step"), int) else 0) for row in run.rows]
    return [row for row, step in steps if first <= step and (not isinstance(high, int) or step < high)]


def _sample(run: Run, spec: Json) -> list[Json]:
    """Rows that hold every asked key, and of them only these keys. Here the highest step belongs to what is asked."""
    wanted, high = spec.get("keys"), spec.get("maxStep")
    keys = [key for key in wanted if isinstance(key, str)] if isinstance(wanted, list) else []
    rows = _rows(run, spec.get("minStep"), high + 1 if isinstance(high, int) else None)
    return [{key: row[key] for key in keys} for row in rows if all(key in row for key in keys)]


def _upsert(service: Service, given: Json) -> Json:
    """Creates a run, or updates the one that the given storage id or name belongs to."""
    name, project = str(given.get("name") or ""), str(given.get("modelName") or "uncategorized")
    by_id = {run.storage_id: run for run in all_runs(service).values()}
    run = by_id.get(str(given.get("id"))) or all_runs(service).get(name)
    inserted = run is None
    if run is None:
        run = create_run(service, project, name)
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
