"""The labelling service: projects, datasets, uploads, data rows and batches, by Labelbox's GraphQL."""

import email.parser
import email.policy
import hashlib
import json
import time
from typing import Any

from labelbox_query import Query, QueryError

from bench.casekit.services import Request, Response, Service

API_KEY = "c0ffee00" * 4
STAMP = "2026-01-01T00:00:00.000Z"
ENDPOINTS = ("/graphql", "/_gql")
"""The client sends what it calls experimental to the second one."""
MOST_BYTES, MOST_UPLOADS = 1_000_000, 200
Json = dict[str, Any]


def labelbox(request: Request, service: Service) -> Response:
    """Answers POST /graphql, and GET of what was uploaded."""
    if request.headers.get("Authorization") != f"Bearer {API_KEY}":
        return Response.json(
            {"errors": [{"message": "the API key is not known here", "extensions": {"code": "UNAUTHENTICATED"}}]}, 401
        )
    if request.method != "POST" or request.path not in ENDPOINTS:
        return Response.json(
            {"errors": [{"message": "POST /graphql is all there is", "extensions": {"code": "NOT_FOUND"}}]}, 404
        )
    try:
        body, file = _body(request)
        with service.lock:
            desk = Desk(service, file, request.headers.get("Host") or "127.0.0.1")
            query = Query(str(body.get("query")), body.get("variables") or {})
            return Response.json({"data": query.answer(desk.root())})
    except (QueryError, RecursionError, TypeError, KeyError, AttributeError, ValueError) as error:
        return Response.json({"errors": [{"message": f"{error}"[:300], "extensions": {"code": "BAD_USER_INPUT"}}]}, 400)


def _body(request: Request) -> tuple[Json, bytes]:
    """The operation, and the file of a multipart form."""
    kind = request.headers.get("Content-Type") or ""
    if not kind.startswith("multipart/form-data"):
        return json.loads(request.body), b""
    whole = b"Content-Type: " + kind.encode() + b"\r\n\r\n" + request.body
    parts = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(whole).iter_parts()
    fields = {part.get_param("name", header="content-disposition"): part.get_payload(decode=True) for part in parts}
    return json.loads(fields["operations"]), fields["1"]


class Desk:
    """What one request can do to what the service keeps."""

    def __init__(self, service: Service, file: bytes, host: str) -> None:
        self.service, self.file, self.host = service, file, host
        self.kept: Json = service.state.setdefault(
            "kept", {kind: {} for kind in ("project", "dataset", "upload", "row", "batch", "task")}
        )

    def root(self) -> Json:
        user = {"id": "user", "email": "bench@localhost", "createdTasks": lambda _: list(self.kept["task"].values())}
        return {
            "createProject": lambda given: self.new("project", given["data"]["name"]),
            "createDataset": lambda given: self.new("dataset", given["data"]["name"]),
            "uploadFile": lambda given: self.upload(given["contentLength"]),
            "createDataRow": lambda given: self.row(
                given["data"]["rowData"], given["data"]["dataset"]["connect"]["id"], None
            ),
            "upsertDataRows": lambda given: self.rows(given["data"]["manifestUri"]),
            "successesfulDataRowImports": lambda given: self.imports(given["data"]["taskId"], "rows"),
            "failedDataRowImports": lambda given: self.imports(given["data"]["taskId"], "failed"),
            "dataRow": lambda given: self.known("row", given["where"]["id"]),
            "dataset": lambda given: self.known("dataset", given["where"]["id"]),
            "project": lambda given: (
                self.known("project", given["where"]["id"])
                | {"createBatchV2": lambda of: self.batch(given["where"]["id"], of["input"])}
            ),
            "task": lambda given: self.known("task", given["where"]["id"]),
            "queryAllDataRowsHaveBeenProcessed": {"allDataRowsHaveBeenProcessed": True},
            "organization": {"id": "organization", "name": "bench"},
            "iamIntegrations": [],
            "customMetadataOntology": [],
            "user": user,
        }

    def new(self, kind: str, name: str, **facts: Any) -> Json:
        if not isinstance(name, str) or not 0 < len(name) <= 200:
            raise QueryError(f"a {kind} needs a name of 1 to 200 letters")
        number = sum(map(len, self.kept.values()))
        uid = "cl" + hashlib.sha256(f"{self.service.seed} {kind} {number}".encode()).hexdigest()[:23]
        made = {"id": uid, "name": name, "createdAt": STAMP, "updatedAt": STAMP, **facts}
        noted = {key: made[key] for key in ("id", "name", *facts) if key != "content"}
        self.service.journal({"event": kind, "time": time.time(), **noted})
        self.kept[kind][uid] = made
        return dict(made)

    def known(self, kind: str, uid: Any) -> Json:
        if uid not in self.kept[kind]:
            raise QueryError(f"there is no {kind} with the id {str(uid)[:60]}")
        return dict(self.kept[kind][uid])

    def upload(self, length: Any) -> Json:
        if length != len(self.file):
            raise QueryError(f"contentLength is {str(length)[:20]}, and the file has {len(self.file)} bytes")
        if len(self.file) > MOST_BYTES or len(self.kept["upload"]) >= MOST_UPLOADS:
            raise QueryError(f"at most {MOST_UPLOADS} files of {MOST_BYTES:,} bytes can be uploaded")
        digest = hashlib.sha256(self.file).hexdigest()
        made = self.new("upload", "upload", sha256=digest, content=self.file)
        url = self.kept["upload"][made["id"]]["url"] = f"http://{self.host}/uploads/{made['id']}"
        return {"url": url, "filename": made["id"]}

    def content(self, url: str) -> Json:
        return self.known("upload", str(url).rpartition("/")[2])

    def row(self, url: str, dataset: str, external: str | None) -> Json:
        self.known("dataset", dataset)
        made = self.new("row", "row", dataset=dataset, sha256=self.content(url)["sha256"])
        facts = {"rowData": url, "externalId": external, "metadataFields": [], "customMetadata": []}
        self.kept["row"][made["id"]] |= facts
        return self.known("row", made["id"])

    def rows(self, manifest: str) -> Json:
        """Data rows in bulk: the manifest names uploads that hold their specifications."""
        sources = json.loads(self.content(manifest)["content"])["chunk_uris"]
        items = [item["payload"] for source in sources for item in json.loads(self.content(source)["content"])]
        made = [self.row(item["row_data"], item["dataset_id"], item.get("external_id")) for item in items]
        facts = {"status": "COMPLETE", "completionPercentage": 100, "type": "upsert-data-rows"}
        task = self.new("task", "import", **facts)
        self.kept["task"][task["id"]] |= {"rows": made, "failed": []}
        return task

    def imports(self, task: str, key: str) -> Json:
        found = self.known("task", task)[key]
        return {"nodes": found, "results": found, "after": None, "total": len(found)}

    def batch(self, project: str, given: Json) -> Json:
        rows = given["dataRowIds"]
        for row in rows:
            self.known("row", row)
        taken = [one["name"] for one in self.kept["batch"].values() if one["project"] == project]
        if not rows or given["name"] in taken:
            raise QueryError("a batch needs data rows, and a name that is new within the project")
        made = self.new("batch", given["name"], project=project, rows=rows, size=len(rows))
        return {"batch": made, "failedDataRowIds": []}
