"""One open GitHub issue for each agent and suite whose results fell: opened, updated, closed when they recovered.

Never run against github.com: the tests speak GitHub's REST protocol to a stand-in server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import Field

from bench.base.text import first_lines, printable
from bench.github.rest import API, Answer, GitHubApi, open_api

_BODY_BYTES = 65_536
_TITLE_CHARACTERS = 256
"""What GitHub takes of an issue; it counts the characters of a body, of which there are never more than bytes."""
LABEL = "benchmark-regression"
_MARKER = re.compile(r"<!-- ml-dev-bench:drop (\{[^\n]*\}) -->")
_SAME_DROP = timedelta(days=7)
_WITHIN = ("OWNER", "MEMBER", "COLLABORATOR")
Key = tuple[str, str]
"""Agent and suite."""


@dataclass(frozen=True)
class Notice:
    """The text that an issue should have."""

    agent: str
    suite: str
    since: str
    """The start of the first night after the drop, ISO 8601."""
    title: str
    body: str
    """Markdown; whatever comes from records must be escaped already."""
    recovered_at: Mapping[str, float]
    """For each series that fell: the level from which on it counts as recovered."""

    @property
    def key(self) -> Key:
        return self.agent, self.suite

    @property
    def heading(self) -> str:
        """The title as GitHub takes it."""
        return printable(self.title, _TITLE_CHARACTERS)

    def marked(self) -> str:
        """The body with the line by which the issue is found again."""
        about = {"agent": self.agent, "suite": self.suite, "since": self.since, "recovered_at": self.recovered_at}
        facts = json.dumps(about, sort_keys=True)
        # `-->` in a value would end the HTML comment.
        hidden = facts.replace("<", "\\u003c").replace(">", "\\u003e").replace("--", "-\\u002d")
        marker = f"\n\n<!-- ml-dev-bench:drop {hidden} -->\n"
        return first_lines(self.body, _BODY_BYTES - len(marker.encode())) + marker


class Author(Answer):
    """Who opened an issue."""

    type: str = ""


class Issue(Answer):
    """What is read of an issue."""

    number: int = Field(ge=1)
    title: str
    body: str | None = None
    state: str
    pull_request: dict[str, object] | None = None
    user: Author | None = None
    author_association: str = ""

    @property
    def of_the_project(self) -> bool:
        """Written by a program or a person that the repository has let in: who opens an issue may always edit it."""
        return self.author_association in _WITHIN or (self.user is not None and self.user.type == "Bot")


class Label(Answer):
    """What is read of a label."""

    name: str


@dataclass(frozen=True)
class Known:
    """An issue of ours."""

    issue: Issue
    key: Key
    since: str
    recovered_at: Mapping[str, float]

    def recovered(self, now: Mapping[str, float]) -> bool:
        """Has every series that fell come back?"""
        return all(now.get(series, -1.0) >= level for series, level in self.recovered_at.items())


def keep_issues(
    repository: str,
    notices: Sequence[Notice],
    watched: Mapping[Key, Mapping[str, float]],
    token: str,
    *,
    api: str = API,
    pause_s: float = 1.0,
) -> list[str]:
    """Bring the issues of `repository` (owner/name) in line with `notices`; returns one line for each action.

    watched: the agents and suites that were looked at, with the worse of the last two nights of each of their series.
    Only issues about these are touched, of the project's own and with the label `LABEL` and our marker. An issue closes
    when no drop stands and every series it names has been back for two nights. An issue that was closed by hand while
    its drop still stood stays closed: the new level was accepted.
    Raises `UserError` when GitHub cannot be reached, refuses, or answers something else than its documentation says.
    """
    remedy = "the token needs the right `issues: write`"
    with open_api(repository, token, api=api, pause_s=pause_s, remedy=remedy) as opened:
        return _keep(opened, {notice.key: notice for notice in notices}, watched)


def _keep(github: GitHubApi, notices: dict[Key, Notice], watched: Mapping[Key, Mapping[str, float]]) -> list[str]:
    known = list(_known(github))
    done: list[str] = []
    for key in sorted(watched):
        own = sorted((it for it in known if it.key == key), key=lambda it: it.issue.number)
        open_now = [it for it in own if it.issue.state == "open"]
        for extra in open_now[1:]:
            _comment(github, extra.issue, f"Duplicate of #{open_now[0].issue.number}.")
            _edit(github, extra.issue, state="closed", state_reason="not_planned")
            done.append(f"closed #{extra.issue.number}: duplicate of #{open_now[0].issue.number}")
        notice = notices.get(key)
        if notice is None:
            done += _recover(github, open_now[:1], watched[key])
        elif open_now:
            done += _update(github, open_now[0].issue, notice)
        elif accepted := [it for it in own if _same_drop(it.since, notice.since)]:
            done.append(f"left #{accepted[-1].issue.number} closed: this drop was accepted")
        else:
            _ensure_label(github)
            asked = {"title": notice.heading, "body": notice.marked(), "labels": [LABEL]}
            made = github.send("POST", Issue, "/issues", asked)
            done.append(f"opened #{made.number}: {notice.heading}")
    return done


def _known(github: GitHubApi) -> Iterable[Known]:
    for issue in github.pages(Issue, "/issues", state="all", labels=LABEL):
        found = _MARKER.search(issue.body or "")
        # GitHub lists pull requests among the issues.
        if not found or issue.pull_request is not None or not issue.of_the_project:
            continue
        try:
            facts = json.loads(found[1])
            back = {str(series): float(level) for series, level in facts["recovered_at"].items()}
            yield Known(issue, (str(facts["agent"]), str(facts["suite"])), str(facts["since"]), back)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            continue  # the marker was edited by hand: the issue is no longer ours


def _recover(github: GitHubApi, open_now: Iterable[Known], now: Mapping[str, float]) -> list[str]:
    done = []
    for it in open_now:
        if not it.recovered(now):
            done.append(f"kept #{it.issue.number} open: not back for two nights yet")
            continue
        _comment(github, it.issue, "Back within the margin of where it was before. Closed by the nightly run.")
        # Without its marker this drop, should it come back within days, is not taken for one that was accepted.
        body = _MARKER.sub("", it.issue.body or "").rstrip() + "\n"
        _edit(github, it.issue, state="closed", state_reason="completed", body=body)
        done.append(f"closed #{it.issue.number}: recovered")
    return done


def _update(github: GitHubApi, issue: Issue, notice: Notice) -> list[str]:
    if issue.title == notice.heading and (issue.body or "").replace("\r\n", "\n").rstrip() == notice.marked().rstrip():
        return []
    _edit(github, issue, title=notice.heading, body=notice.marked())
    return [f"updated #{issue.number}: {notice.heading}"]


def _edit(github: GitHubApi, issue: Issue, **changes: str) -> None:
    github.send("PATCH", Issue, f"/issues/{issue.number}", changes)


def _comment(github: GitHubApi, issue: Issue, text: str) -> None:
    github.send("POST", Answer, f"/issues/{issue.number}/comments", {"body": text})


def _ensure_label(github: GitHubApi) -> None:
    if all(label.name != LABEL for label in github.pages(Label, "/labels")):
        about = "Opened and closed by ml-dev-bench trends"
        github.send("POST", Label, "/labels", {"name": LABEL, "color": "b60205", "description": about})


def _same_drop(one: str, other: str) -> bool:
    """The night of a step may move by a few as more nights come."""
    try:
        return abs(datetime.fromisoformat(one) - datetime.fromisoformat(other)) <= _SAME_DROP
    except (ValueError, TypeError):
        return False
