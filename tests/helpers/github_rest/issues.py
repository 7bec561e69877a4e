"""Issues, their labels and comments, and pull requests, which share their numbers.

https://docs.github.com/en/rest/issues, https://docs.github.com/en/rest/pulls
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.helpers.github_rest.protocol import AT, Answer, Json, Refused, Request, Route, paged, required

BOT = "github-actions[bot]"


class Issues:
    """Of one repository, oldest first; `number` is the place in the list, counted from 1."""

    def __init__(self, name: str, page: int) -> None:
        self.name = name
        self.page = page
        """Items a page, whatever is asked for; 0: as asked for."""
        self.api = ""
        self.actor = BOT
        self.issues: list[Json] = []
        self.pulls: dict[int, Json] = {}
        self.labels: list[str] = []
        self.comments: list[Json] = []

    def routes(self) -> list[Route]:
        return [
            ("GET", "/issues", self._list),
            ("POST", "/issues", self._open),
            ("GET", "/issues/comments/([0-9]+)", lambda request, number: Answer(200, self._comment(number))),
            ("PATCH", "/issues/comments/([0-9]+)", self._edit_comment),
            ("GET", "/issues/([0-9]+)", lambda request, number: Answer(200, self._issue(number))),
            ("PATCH", "/issues/([0-9]+)", self._edit),
            ("GET", "/issues/([0-9]+)/comments", self._comments),
            ("POST", "/issues/([0-9]+)/comments", self._new_comment),
            ("GET", "/labels", lambda request: self._paged(request, [{"name": it} for it in self.labels])),
            ("POST", "/labels", self._new_label),
            ("GET", "/pulls", self._pulls),
            ("GET", "/pulls/([0-9]+)", self._pull),
        ]

    def open_issue(self, title: str, body: str, labels: Sequence[str], *, pull: bool = False) -> Json:
        number = len(self.issues) + 1
        issue: Json = {
            "number": number,
            "title": title,
            "body": body,
            "state": "open",
            "state_reason": None,
            "user": self._user(self.actor),
            "labels": [{"name": label} for label in labels],
            "url": f"{self.api}/repos/{self.name}/issues/{number}",
            "html_url": f"https://github.com/{self.name}/{'pull' if pull else 'issues'}/{number}",
        }
        if pull:
            issue["pull_request"] = {"url": f"{self.api}/repos/{self.name}/pulls/{number}"}
        self.issues.append(issue)
        return issue

    def open_pull(
        self, head: str, base: str, *, branch: str = "feature", into: str = "main", repository: str | None = ""
    ) -> Json:
        """A pull request of commit `head` from `branch` of `repository` (empty: this one, None: deleted)."""
        issue = self.open_issue("A change", "", [], pull=True)
        source = self.name if repository == "" else repository
        pull = {
            **{name: issue[name] for name in ("number", "title", "body", "state", "html_url", "user")},
            "url": issue["pull_request"]["url"],
            "head": {
                "label": f"{(source or 'unknown').split('/')[0]}:{branch}",
                "ref": branch,
                "sha": head,
                "repo": {"full_name": source, "fork": source != self.name} if source else None,
            },
            "base": {"label": f"{self.name.split('/')[0]}:{into}", "ref": into, "sha": base}
            | {"repo": {"full_name": self.name}},
            "merged": False,
        }
        self.pulls[pull["number"]] = pull
        return pull

    def comment(self, number: int, body: str, login: str = BOT) -> Json:
        made: Json = {
            "id": 1000 + len(self.comments),
            "body": body,
            "user": self._user(login),
            "created_at": AT,
            "updated_at": AT,
            "html_url": f"https://github.com/{self.name}/pull/{number}#issuecomment-{1000 + len(self.comments)}",
            "issue_url": f"{self.api}/repos/{self.name}/issues/{number}",
        }
        self.comments.append(made)
        return made

    def comments_on(self, number: int) -> list[str]:
        """The text of each comment, oldest first."""
        return [it["body"] for it in self.comments if it["issue_url"].endswith(f"/issues/{number}")]

    def _user(self, login: str) -> Json:
        return {"login": login, "type": "Bot" if login.endswith("[bot]") else "User"}

    def _paged(self, request: Request, items: Sequence[Json]) -> Answer:
        return paged(request, items, page_size=self.page)

    def _issue(self, number: str) -> Json:
        if not 0 < int(number) <= len(self.issues):
            raise Refused(404, "Not Found")
        return self.issues[int(number) - 1]

    def _comment(self, number: str) -> Json:
        found = next((it for it in self.comments if it["id"] == int(number)), None)
        if found is None:
            raise Refused(404, "Not Found")
        return found

    def _list(self, request: Request) -> Answer:
        wanted = set(request.query.get("labels", "").split(",")) - {""}
        state = request.query.get("state", "open")
        found = [
            issue
            for issue in reversed(self.issues)
            if wanted <= {label["name"] for label in issue["labels"]} and state in ("all", issue["state"])
        ]
        return self._paged(request, found)

    def _open(self, request: Request) -> Answer:
        required(request.body, "title")
        body = request.body
        _check_lengths(body)
        return Answer(201, self.open_issue(body["title"], body.get("body") or "", body.get("labels", [])))

    def _edit(self, request: Request, number: str) -> Answer:
        issue = self._issue(number)
        known = {"title", "body", "state", "state_reason"}
        _check_lengths(request.body)
        issue.update({name: value for name, value in request.body.items() if name in known})
        return Answer(200, issue)

    def _comments(self, request: Request, number: str) -> Answer:
        issue = self._issue(number)
        return self._paged(request, [it for it in self.comments if it["issue_url"] == issue["url"]])

    def _new_comment(self, request: Request, number: str) -> Answer:
        required(request.body, "body")
        issue = self._issue(number)
        _check_lengths(request.body)
        return Answer(201, self.comment(issue["number"], request.body["body"], self.actor))

    def _edit_comment(self, request: Request, number: str) -> Answer:
        required(request.body, "body")
        _check_lengths(request.body)
        found = self._comment(number)
        if found["user"]["login"] != self.actor and self.actor == BOT:
            raise Refused(403, "Resource not accessible by integration")
        found.update(body=request.body["body"], updated_at="2026-11-23T03:00:00Z")
        return Answer(200, found)

    def _new_label(self, request: Request) -> Answer:
        required(request.body, "name")
        if request.body["name"] in self.labels:
            raise Refused(422, "Validation Failed: already_exists")
        self.labels.append(request.body["name"])
        return Answer(201, {"name": request.body["name"]})

    def _pulls(self, request: Request) -> Answer:
        state, head = request.query.get("state", "open"), request.query.get("head", "")
        found = [
            pull
            for _, pull in sorted(self.pulls.items(), reverse=True)
            if state in ("all", pull["state"]) and head in ("", pull["head"]["label"])
        ]
        return self._paged(request, found)

    def _pull(self, request: Request, number: str) -> Answer:
        if int(number) not in self.pulls:
            raise Refused(404, "Not Found")
        return Answer(200, self.pulls[int(number)])


def _check_lengths(body: Json) -> None:
    for name, most in (("title", 256), ("body", 65_536)):
        if len(body.get(name) or "") > most:
            raise Refused(422, f"Validation Failed: {name} is too long (maximum is {most} characters)")
