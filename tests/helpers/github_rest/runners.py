"""Self-hosted runners of a repository or an organisation, and the tokens of an App.

https://docs.github.com/en/rest/actions/self-hosted-runners, https://docs.github.com/en/rest/apps/apps. What the pages
leave open follows what was seen live: a missing group is 422, a foreign one 403, an unknown one 404, and a name that
exists 409, also where the answer to its making was lost.
"""

from __future__ import annotations

from tests.helpers.github_rest.protocol import Answer, Json, Refused, Request, Route, paged, required
from tests.helpers.github_rest.runner_service import RunnerService


class SelfHosted:
    """The runners of one repository, and of its organisation: one list serves both here."""

    def __init__(self) -> None:
        self.records: dict[int, Json] = {}
        self.enabled = True
        self.lost_answers = 0
        """So many registrations make their record and answer 503."""
        self.lag = 0
        """So many lists show the state before the last registration."""
        self.service = RunnerService(self.records)
        self._older: list[Json] = []
        self._made = 0

    def routes(self) -> list[Route]:
        return [
            ("GET", "/actions/runners", self._list),
            ("GET", "/actions/runners/([0-9]+)", self._one),
            ("DELETE", "/actions/runners/([0-9]+)", self._remove),
            ("POST", "/actions/runners/generate-jitconfig", self._generate),
        ]

    def add(self, name: str, label: str = "gpu", *, busy: bool = False, online: bool = False) -> Json:
        """A record as the service keeps it."""
        self._made += 1
        record: Json = {
            "id": self._made,
            "name": name,
            "os": "linux",
            "status": "online" if online or busy else "offline",
            "busy": busy,
            "ephemeral": True,
            "runner_group_id": 1,
            "labels": [{"id": 0, "name": label, "type": "custom"}],
        }
        self.records[self._made] = record
        return record

    def _list(self, request: Request) -> Answer:
        shown = list(self.records.values())
        if self.lag > 0:
            self.lag -= 1
            shown = self._older
        wanted = request.query.get("name", "")
        return paged(request, [it for it in shown if wanted in ("", it["name"])], name="runners")

    def _one(self, request: Request, number: str) -> Answer:
        if int(number) not in self.records:
            raise Refused(404, "Not Found")
        return Answer(200, self.records[int(number)])

    def _remove(self, request: Request, number: str) -> Answer:
        record = self.records.get(int(number))
        if record is None:
            raise Refused(404, "Not Found")
        if record["busy"]:
            raise Refused(422, f'Runner "{record["name"]}" is currently running a job and cannot be deleted.')
        del self.records[int(number)]
        return Answer(204, b"")

    def _generate(self, request: Request) -> Answer:
        if not self.enabled:
            raise Refused(403, "Repository level self-hosted runners are disabled on this repository.")
        required(request.body, "name")
        group, labels = request.body.get("runner_group_id"), request.body.get("labels")
        if not isinstance(group, int):
            raise Refused(422, "Invalid input: object is missing required key: runner_group_id")
        if group != 1:
            raise Refused(403 if group == 2 else 404, "Runner group cannot be used")
        if not isinstance(labels, list) or not 1 <= len(labels) <= 100 or not all(isinstance(it, str) for it in labels):
            raise Refused(422, "Invalid request. labels must have between 1 and 100 items.")
        name = request.body["name"]
        if len(name) > 64:
            raise Refused(422, "Runner name must be between 1 and 64 characters")
        if any(it["name"] == name for it in self.records.values()):
            raise Refused(409, f"Already exists - A runner with the name {name} already exists.")
        self._older = list(self.records.values())
        record = self.add(name, labels[0])
        if self.lost_answers > 0:
            self.lost_answers -= 1
            raise Refused(503, "Service Unavailable")
        return Answer(201, {"runner": record, "encoded_jit_config": self.service.configuration(record)})
