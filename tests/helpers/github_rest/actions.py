"""Workflow runs with their artifacts, dispatches, and check runs.

https://docs.github.com/en/rest/actions, https://docs.github.com/en/rest/checks
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tests.helpers.github_rest.protocol import AT, Answer, Json, Refused, Request, Route, paged, required

_CONCLUSIONS = ["action_required", "cancelled", "failure", "neutral", "success", "skipped", "stale", "timed_out"]


class Actions:
    """Of one repository."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.api = ""
        self.runs: dict[int, Json] = {}
        self.artifacts: list[Json] = []
        self.archives: dict[int, bytes] = {}
        self.dispatches: list[Json] = []
        self.checks: list[Json] = []
        self.app = 15368
        """The id of the app that every check run is of: that of GitHub Actions."""

    def routes(self) -> list[Route]:
        return [
            ("GET", "/actions/runs/([0-9]+)", self._run),
            ("GET", "/actions/runs/([0-9]+)/artifacts", self._artifacts),
            ("GET", "/actions/artifacts/([0-9]+)/zip", self._archive),
            ("POST", "/dispatches", self._dispatch),
            ("POST", "/actions/workflows/([^/]+)/dispatches", self._dispatch),
            ("POST", "/check-runs", self._new_check),
            ("PATCH", "/check-runs/([0-9]+)", self._edit_check),
            ("GET", "/commits/([0-9a-f]{40})/check-runs", self._checks),
        ]

    def make_run(
        self,
        number: int,
        head: str,
        *,
        attempt: int = 1,
        event: str = "pull_request",
        branch: str = "feature",
        repository: str = "",
        pulls: tuple[int, ...] = (),
        path: str = ".github/workflows/mldb-gate.yml",
    ) -> Json:
        """A finished run, as `workflow_run` of an event and the API tell of it. Of a fork, `pulls` is empty."""
        source = repository or self.name
        run: Json = {
            "id": number,
            "name": "mldb-gate",
            "path": path,
            "event": event,
            "status": "completed",
            "conclusion": "success",
            "head_sha": head,
            "head_branch": branch,
            "run_number": 1,
            "run_attempt": attempt,
            "created_at": AT,
            "run_started_at": AT,
            "updated_at": AT,
            "html_url": f"https://github.com/{self.name}/actions/runs/{number}",
            "repository": {"full_name": self.name},
            "head_repository": {"full_name": source, "owner": {"login": source.split("/")[0]}},
            "pull_requests": [{"number": it} for it in pulls],
        }
        self.runs[number] = run
        return run

    def upload(self, run: int, name: str, content: Path | Mapping[str, bytes] | bytes, **facts: object) -> Json:
        """An artifact of a run: a folder, files by name, or the bytes of an archive."""
        data = content if isinstance(content, bytes) else archived(content)
        number = 70_000 + len(self.artifacts)
        made: Json = {
            "id": number,
            "name": name,
            "size_in_bytes": len(data),
            "expired": False,
            "archive_download_url": f"{self.api}/repos/{self.name}/actions/artifacts/{number}/zip",
            "workflow_run": {"id": run, "head_sha": self.runs[run]["head_sha"]},
            **facts,
        }
        self.artifacts.append(made)
        self.archives[number] = data
        return made

    def _run(self, request: Request, number: str) -> Answer:
        if int(number) not in self.runs:
            raise Refused(404, "Not Found")
        return Answer(200, self.runs[int(number)])

    def _artifacts(self, request: Request, number: str) -> Answer:
        wanted = request.query.get("name", "")
        found = [it for it in self.artifacts if it["workflow_run"]["id"] == int(number) and wanted in ("", it["name"])]
        return paged(request, found, name="artifacts")

    def _archive(self, request: Request, number: str) -> Answer:
        found = next((it for it in self.artifacts if it["id"] == int(number)), None)
        if found is None:
            raise Refused(404, "Not Found")
        if found["expired"]:
            raise Refused(410, "Artifact has expired")
        # On another host, as GitHub's storage is: whoever sends the token there as well gives it away.
        return Answer(302, b"", {"Location": f"{self.api.replace('127.0.0.1', 'localhost')}/storage/{number}"})

    def _dispatch(self, request: Request, workflow: str = "") -> Answer:
        required(request.body, "ref" if workflow else "event_type")
        self.dispatches.append({**request.body, "workflow": workflow})
        return Answer(204, b"")

    def _new_check(self, request: Request) -> Answer:
        required(request.body, "name", "head_sha")
        if not re.fullmatch("[0-9a-f]{40}", request.body["head_sha"]):
            raise Refused(422, "Validation Failed: head_sha")
        made: Json = {"id": 500 + len(self.checks), "started_at": AT, "app": {"id": self.app, "slug": "github-actions"}}
        self._fill(made, request.body)
        self.checks.append(made)
        return Answer(201, made)

    def _edit_check(self, request: Request, number: str) -> Answer:
        found = next((it for it in self.checks if it["id"] == int(number)), None)
        if found is None:
            raise Refused(404, "Not Found")
        self._fill(found, request.body)
        return Answer(200, found)

    def _fill(self, check: Json, body: Json) -> None:
        if body.get("conclusion") not in (None, *_CONCLUSIONS):
            raise Refused(422, "Validation Failed: conclusion")
        output = body.get("output")
        if output is not None and (not output.get("title") or len(output.get("summary", "")) > 65_535):
            raise Refused(422, "Validation Failed: output")
        known = ("name", "head_sha", "status", "conclusion", "external_id", "details_url", "output")
        check.update({name: body[name] for name in known if name in body})

    def _checks(self, request: Request, commit: str) -> Answer:
        wanted = request.query.get("check_name", "")
        found = [it for it in self.checks if it["head_sha"] == commit and wanted in ("", it["name"])]
        return paged(request, found[::-1], name="check_runs")


def archived(content: Path | Mapping[str, bytes]) -> bytes:
    """A zip archive of the files, as actions/upload-artifact makes one: without hidden ones."""
    if isinstance(content, Path):
        every = [path for path in sorted(content.rglob("*")) if path.is_file()]
        named = {str(path.relative_to(content)): path for path in every}
        shown = {name: path for name, path in named.items() if not any(it[:1] == "." for it in name.split("/"))}
        files = {name: path.read_bytes() for name, path in shown.items()}
    else:
        files = dict(content)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()
