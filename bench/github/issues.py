"""One open GitHub issue for each agent and suite whose results fell: opened, updated, closed when they recovered.

Never run against github.com: the tests speak GitHub's REST protocol to a stand-in server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bench.base.errors import UserError

if TYPE_CHECKING:
    from github.Issue import Issue
    from github.Repository import Repository

LABEL = "benchmark-regression"
_MARKER = re.compile(r"<!-- ml-dev-bench:drop (\{[^\n]*\}) -->")
_SAME_DROP = timedelta(days=7)
_SECONDS = 30
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

    def marked(self) -> str:
        """The body with the line by which the issue is found again."""
        about = {"agent": self.agent, "suite": self.suite, "since": self.since, "recovered_at": self.recovered_at}
        facts = json.dumps(about, sort_keys=True)
        # `-->` in a value would end the HTML comment.
        hidden = facts.replace("<", "\\u003c").replace(">", "\\u003e").replace("--", "-\\u002d")
        return f"{self.body}\n\n<!-- ml-dev-bench:drop {hidden} -->\n"


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
    api: str = "https://api.github.com",
    pause_s: float = 1.0,
) -> list[str]:
    """Bring the issues of `repository` (owner/name) in line with `notices`; returns one line for each action.

    watched: the agents and suites that were looked at, with the worse of the last two nights of each of their series.
    Only issues about these are touched, and only those with the label `LABEL` and our marker. An issue closes when no
    drop stands and every series it names has been back for two nights. An issue that was closed by hand while its
    drop still stood stays closed: the new level was accepted.
    Raises `UserError` when GitHub cannot be reached or refuses.
    """
    import github

    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository, re.ASCII):
        raise UserError(f"`{repository}` is not a repository", remedy="write owner/name")
    client = github.Github(
        auth=github.Auth.Token(token),
        base_url=api,
        timeout=_SECONDS,
        seconds_between_requests=0,
        seconds_between_writes=pause_s,
        lazy=True,
    )
    try:
        return _keep(client.get_repo(repository), {notice.key: notice for notice in notices}, watched)
    except github.GithubException as error:
        message = error.data.get("message", "") if isinstance(error.data, dict) else ""
        raise UserError(
            f"GitHub answered {error.status} {message}".strip(),
            where=repository,
            remedy="the token needs the right `issues: write`",
        ) from None
    except OSError as error:
        raise UserError(f"cannot be reached: {type(error).__name__}", where=api, remedy="try again later") from None
    finally:
        client.close()


def _keep(repository: Repository, notices: dict[Key, Notice], watched: Mapping[Key, Mapping[str, float]]) -> list[str]:
    known = list(_known(repository))
    done: list[str] = []
    for key in sorted(watched):
        own = sorted((it for it in known if it.key == key), key=lambda it: it.issue.number)
        open_now = [it for it in own if it.issue.state == "open"]
        for extra in open_now[1:]:
            extra.issue.create_comment(f"Duplicate of #{open_now[0].issue.number}.")
            extra.issue.edit(state="closed", state_reason="not_planned")
            done.append(f"closed #{extra.issue.number}: duplicate of #{open_now[0].issue.number}")
        notice = notices.get(key)
        if notice is None:
            done += _recover(open_now[:1], watched[key])
        elif open_now:
            done += _update(open_now[0].issue, notice)
        elif accepted := [it for it in own if _same_drop(it.since, notice.since)]:
            done.append(f"left #{accepted[-1].issue.number} closed: this drop was accepted")
        else:
            _ensure_label(repository)
            made = repository.create_issue(notice.title, notice.marked(), labels=[LABEL])
            done.append(f"opened #{made.number}: {notice.title}")
    return done


def _known(repository: Repository) -> Iterable[Known]:
    for issue in repository.get_issues(state="all", labels=[LABEL]):
        found = _MARKER.search(issue.body or "")
        # `issue.pull_request` would ask GitHub once for every issue: lists leave it out where there is none.
        if not found or "/pull/" in issue.html_url:
            continue
        try:
            facts = json.loads(found[1])
            back = {str(series): float(level) for series, level in facts["recovered_at"].items()}
            yield Known(issue, (str(facts["agent"]), str(facts["suite"])), str(facts["since"]), back)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # the marker was edited by hand: the issue is no longer ours


def _recover(open_now: Iterable[Known], now: Mapping[str, float]) -> list[str]:
    done = []
    for it in open_now:
        if not it.recovered(now):
            done.append(f"kept #{it.issue.number} open: not back for two nights yet")
            continue
        it.issue.create_comment("Back within the margin of where it was before. Closed by the nightly run.")
        # Without its marker this drop, should it come back within days, is not taken for one that was accepted.
        body = _MARKER.sub("", it.issue.body or "").rstrip() + "\n"
        it.issue.edit(state="closed", state_reason="completed", body=body)
        done.append(f"closed #{it.issue.number}: recovered")
    return done


def _update(issue: Issue, notice: Notice) -> list[str]:
    if issue.title == notice.title and (issue.body or "").replace("\r\n", "\n").rstrip() == notice.marked().rstrip():
        return []
    issue.edit(title=notice.title, body=notice.marked())
    return [f"updated #{issue.number}: {notice.title}"]


def _ensure_label(repository: Repository) -> None:
    if all(label.name != LABEL for label in repository.get_labels()):
        repository.create_label(LABEL, "b60205", "Opened and closed by ml-dev-bench trends")


def _same_drop(one: str, other: str) -> bool:
    """The night of a step may move by a few as more nights come."""
    try:
        return abs(datetime.fromisoformat(one) - datetime.fromisoformat(other)) <= _SAME_DROP
    except (ValueError, TypeError):
        return False
