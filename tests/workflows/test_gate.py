"""The gate of a pull request: what its job measures, and what another job believes of it."""

from __future__ import annotations

import html
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.formats.record import Record
from bench.store.branch import ResultsBranch
from bench.store.bundle import Bundle
from tests.helpers.github_rest import TOKEN, Service, github_rest
from tests.helpers.github_rest.actions import archived
from tests.helpers.hostile import make_planned_night, write_artifact
from tests.helpers.records import START, make_check, make_record
from tests.workflows.rehearsal.gate import (
    Commits,
    copy_benchmark,
    make_agent_repository,
    make_remote,
    outputs_of,
    run_verb,
)
from tests.workflows.rehearsal.githost import git_host
from tests.workflows.rehearsal.stage import git

pytestmark = pytest.mark.slow

NAME = "owner/agents"
RUN = 4711
FORK = "ada/agents"


@dataclass(frozen=True)
class Stage:
    """A pull request, GitHub, and the records that its gate left."""

    folder: Path
    benchmark: Path
    repository: Path
    remote: Path
    commits: Commits
    hub: Service
    server: str
    records: Path
    steps: list[int] = field(default_factory=list)

    def say(self, status: int = 0, *, attempt: int = 1, run: int = RUN, branches: str = "", **facts: object) -> str:
        """What the job `comment` prints on the event of this run."""
        event = {"action": "completed", "workflow_run": {**self.hub.actions.runs[run], "run_attempt": attempt, **facts}}
        event["repository"] = {"full_name": NAME, "default_branch": "main"}
        self.steps.append(run)
        folder = self.folder / f"step-{len(self.steps)}"
        folder.mkdir(parents=True)
        (folder / "event.json").write_text(json.dumps(event), encoding="utf-8")
        done = run_verb(
            self.benchmark,
            "comment",
            folder,
            MLDB_TOKEN=TOKEN,
            MLDB_BRANCHES=branches,
            MLDB_SANDBOX="process",
            GITHUB_EVENT_PATH=str(folder / "event.json"),
            GITHUB_API_URL=self.hub.api,
            GITHUB_SERVER_URL=self.server,
            GITHUB_REPOSITORY=NAME,
        )
        assert done.returncode == status, f"{done.returncode}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        assert TOKEN not in done.stdout + done.stderr
        return done.stdout

    def upload(
        self, content: Path | dict[str, bytes] | bytes | None = None, *, run: int = RUN, attempt: int = 1
    ) -> None:
        self.hub.actions.upload(run, f"mldb-gate-{run}-{attempt}", self.records if content is None else content)

    def forged(self, change: Callable[[Path], None]) -> Path:
        """A copy of the records, changed."""
        copy = self.folder / "forged" / self.records.name
        shutil.copytree(self.records, copy)
        change(copy)
        return copy

    @property
    def check(self) -> dict[str, Any]:
        (only,) = self.hub.actions.checks
        return only

    @property
    def comment(self) -> str:
        (only,) = self.hub.hub.comments_on(1)
        return only


@pytest.fixture(scope="module")
def benchmark_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_benchmark(tmp_path_factory.mktemp("gate") / "benchmark")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Commits]:
    folder = tmp_path_factory.mktemp("agent") / "agent"
    return folder, make_agent_repository(folder)


def compare(benchmark_tree: Path, repository: Path, commits: Commits, head: str, folder: Path) -> tuple[int, str]:
    """The gate of a commit; its status and what it printed."""
    done = run_verb(
        benchmark_tree,
        "compare",
        folder,
        MLDB_BASE=commits.base,
        MLDB_HEAD=head,
        MLDB_PULL_REQUEST="1",
        MLDB_SANDBOX="process",
        MLDB_JOBS="2",
        GITHUB_WORKSPACE=str(repository),
        GITHUB_RUN_ID=str(RUN),
        GITHUB_RUN_ATTEMPT="1",
        GITHUB_SERVER_URL="http://127.0.0.1:9",
        GITHUB_REPOSITORY=NAME,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def broken(
    benchmark_tree: Path, agent: tuple[Path, Commits], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, tuple[int, str]]:
    """What the gate of the planted regression left."""
    repository, commits = agent
    folder = tmp_path_factory.mktemp("broken")
    ended = compare(benchmark_tree, repository, commits, commits.broken, folder)
    return Path(outputs_of(folder)["records"]), ended


@pytest.fixture
def stage(
    benchmark_tree: Path, agent: tuple[Path, Commits], broken: tuple[Path, tuple[int, str]], tmp_path: Path
) -> Iterator[Stage]:
    repository, commits = agent
    remote = make_remote(repository, tmp_path / "host" / NAME)
    with github_rest(NAME, remote, page=2) as hub, git_host(tmp_path / "host", TOKEN) as server:
        hub.hub.open_pull(commits.broken, commits.base, branch="broken")
        made = hub.actions.make_run(RUN, commits.broken, branch="broken")
        made |= times()
        # The records name the server at which they were made.
        records = readdressed(broken[0], tmp_path / "records" / broken[0].name, server)
        yield Stage(tmp_path, benchmark_tree, repository, remote, commits, hub, server, records)


def times() -> dict[str, str]:
    now = datetime.now(UTC)
    ended = (now + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"run_started_at": (now - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ"), "updated_at": ended}


def readdressed(source: Path, target: Path, server: str) -> Path:
    shutil.copytree(source, target)
    for path in (target / "cells").glob("*.json"):
        path.write_text(path.read_text(encoding="utf-8").replace("http://127.0.0.1:9", server), encoding="utf-8")
    return target


# --- the job of the gate ----------------------------------------------------------------------------------------------


def test_a_regression_is_red_and_says_why(broken: tuple[Path, tuple[int, str]]) -> None:
    records, (status, said) = broken
    assert status == 1
    assert "::error title=ml-dev-bench::gate: regression" in said
    assert json.loads((records / "gate.json").read_text())["verdict"] == "regression"
    assert not list(records.glob(".*key")), "the secret of the seeds is in no artifact"
    plan = json.loads((records / "run.json").read_text())
    assert [cell["arm"] for cell in plan["cells"]][:4] in (
        ["head", "base", "base", "head"],
        ["base", "head", "head", "base"],
    )


@pytest.mark.nightly
def test_what_is_harmless_is_green_and_only_the_folder_of_the_agent_comes_from_head(
    benchmark_tree: Path, agent: tuple[Path, Commits], tmp_path: Path
) -> None:
    repository, commits = agent
    status, said = compare(benchmark_tree, repository, commits, commits.harmless, tmp_path / "harmless")
    assert (status, outputs_of(tmp_path / "harmless")["verdict"]) == (0, "undecided"), said
    assert "::error" not in said
    status, said = compare(benchmark_tree, repository, commits, commits.sneaky, tmp_path / "sneaky")
    assert status == 1, "head's own rules, with two cases, could not have shown it"
    plan = json.loads((Path(outputs_of(tmp_path / "sneaky")["records"]) / "run.json").read_text())
    assert len({cell["case"] for cell in plan["cells"]}) == 5


def test_an_agent_that_has_not_changed_is_not_run(
    benchmark_tree: Path, agent: tuple[Path, Commits], tmp_path: Path
) -> None:
    repository, commits = agent
    status, _ = compare(benchmark_tree, repository, commits, commits.docs, tmp_path)
    assert (status, outputs_of(tmp_path)["verdict"]) == (0, "unchanged")
    assert not (Path(outputs_of(tmp_path)["records"]) / "cells").exists()


def test_a_change_that_a_gate_cannot_see_is_not_called_unchanged(
    benchmark_tree: Path, agent: tuple[Path, Commits], tmp_path: Path
) -> None:
    """What a submodule holds is in another repository, and a checkout of a commit leaves its folder empty."""
    repository, commits = agent
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--no-local", str(repository), str(clone))
    git(clone, "checkout", "--quiet", "--detach", commits.base)
    git(clone, "update-index", "--add", "--cacheinfo", f"160000,{commits.broken},bot/library")
    git(clone, "commit", "--quiet", "--message=A submodule")
    status, said = compare(benchmark_tree, clone, commits, git(clone, "rev-parse", "HEAD"), tmp_path / "step")
    assert status == 2, said
    assert "bot/library is a submodule that head changes" in said


def test_an_old_commit_does_not_choose_old_rules(
    benchmark_tree: Path, agent: tuple[Path, Commits], tmp_path: Path
) -> None:
    repository, commits = agent
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--no-local", str(repository), str(clone))
    git(clone, "checkout", "--quiet", "-B", "main", commits.base)
    (clone / ".github" / "mldb" / "gate.yaml").write_text("suites: [gate]\nagents: [bot/mldb-agent.yml]\n")
    git(clone, "commit", "--quiet", "--all", "--message=New rules")
    newer = Commits(git(clone, "rev-parse", "HEAD"), *[""] * 4)
    status, said = compare(benchmark_tree, clone, newer, commits.broken, tmp_path / "step")
    assert status == 2
    assert "the base branch has changed them since" in said and "rebase it" in said


@pytest.mark.parametrize("target", [pytest.param("/etc", marks=pytest.mark.nightly), "../elsewhere"])
def test_head_cannot_name_an_agent_outside_of_its_commit(
    benchmark_tree: Path, agent: tuple[Path, Commits], tmp_path: Path, target: str
) -> None:
    repository, commits = agent
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--no-local", str(repository), str(clone))
    git(clone, "checkout", "--quiet", "--detach", commits.base)
    shutil.rmtree(clone / "bot")
    (clone / "bot").symlink_to(target)
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message=A link")
    status, said = compare(benchmark_tree, clone, commits, git(clone, "rev-parse", "HEAD"), tmp_path / "step")
    assert status == 2
    assert "is a link, or outside the repository" in said


@pytest.mark.nightly
def test_a_shallow_clone_is_named(benchmark_tree: Path, agent: tuple[Path, Commits], tmp_path: Path) -> None:
    repository, commits = agent
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository}", str(tmp_path / "clone"))
    status, said = compare(benchmark_tree, tmp_path / "clone", commits, commits.broken, tmp_path / "step")
    assert status == 2
    assert "is not in this clone (give actions/checkout `fetch-depth: 0`)" in said


@pytest.mark.parametrize("stored", [True, False])
def test_what_history_alone_says_never_blocks(benchmark_tree: Path, tmp_path: Path, stored: bool) -> None:
    bare, cases = tmp_path / "results.git", [f"case_{number}" for number in range(12)]
    base = [committed(make_record(case=case, run="night-1"), "b" * 40) for case in cases]
    fell = [make_check(value=0.0)]
    head = [committed(make_record(case=case, run="head-1", checks=fell), "c" * 40) for case in cases]
    branch = ResultsBranch(bare)
    branch.ensure()
    branch.commit(Bundle("night-1", 1, base, START))
    plan = make_planned_night().plan
    write_artifact(tmp_path / "head-1", plan, head)
    done = run_verb(
        benchmark_tree,
        "compare",
        tmp_path / "step",
        MLDB_BASE=("b" if stored else "d") * 40,
        MLDB_RECORDS=str(tmp_path / "head-1"),
        MLDB_RESULTS_REPOSITORY=str(bare),
    )
    if stored:
        assert done.returncode == 0, done.stdout + done.stderr
        assert outputs_of(tmp_path / "step")["verdict"] == "not interleaved: regression"
        assert "::error" not in done.stdout
    else:
        assert done.returncode == 2
        assert "no such version is stored" in done.stdout


def committed(record: Record, commit: str) -> Record:
    return record.model_copy(update={"agent": record.agent.model_copy(update={"commit": commit})})


# --- the job that comments --------------------------------------------------------------------------------------------


def test_a_regression_is_said_once_and_nothing_is_written_again(stage: Stage) -> None:
    stage.upload()
    for number in range(3):
        stage.hub.hub.comment(1, f"a person's comment {number}", "ada")
    said = stage.say()
    assert "made Check" in said and "commented on #1" in said
    assert (stage.check["conclusion"], stage.check["name"]) == ("failure", "ml-dev-bench gate (main)")
    assert stage.check["head_sha"] == stage.commits.broken
    own = [text for text in stage.hub.hub.comments_on(1) if "ml-dev-bench:gate" in text]
    assert len(own) == 1
    for text in (own[0], stage.check["output"]["summary"]):
        assert "ML-Dev-Bench gate: regression" in text
        assert "| hello_0 | 2/2 | 0/2 |" in text
    assert stage.hub.stolen == []
    writes = len(stage.hub.writes)
    said = stage.say()
    assert said.count("nothing has changed") == 2
    assert len(stage.hub.writes) == writes


@pytest.mark.nightly
def test_a_fork_is_found_by_repository_branch_and_commit(stage: Stage) -> None:
    """Its event names no pull request; other pull requests have the same branch name, or the same commit."""
    hub = stage.hub.hub
    hub.pulls.clear()
    hub.open_pull(stage.commits.broken, stage.commits.base, branch="broken", repository="eve/agents")
    hub.open_pull(stage.commits.harmless, stage.commits.base, branch="broken", repository=FORK)
    wanted = hub.open_pull(stage.commits.broken, stage.commits.base, branch="broken", repository=FORK)["number"]
    run = stage.hub.actions.make_run(RUN, stage.commits.broken, branch="broken", repository=FORK)
    run |= times()

    def number(folder: Path) -> None:
        edit(folder / "gate.json", number=wanted)

    stage.upload(stage.forged(number))
    assert f"commented on #{wanted}" in stage.say()
    assert {it["issue_url"].rpartition("/")[2] for it in hub.comments} == {str(wanted)}


def edit(path: Path, **changes: object) -> None:
    facts = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**facts, **changes}), encoding="utf-8")


def edit_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def edit_cells(folder: Path, arm: str, **changes: object) -> None:
    for path in (folder / "cells").glob("*.json"):
        if json.loads(path.read_text())["arm"] == arm:
            edit(path, **changes)


def drop_case(folder: Path) -> None:
    plan = json.loads((folder / "run.json").read_text())
    plan["cells"] = [cell for cell in plan["cells"] if cell["case"] != "hello_0"]
    (folder / "run.json").write_text(json.dumps(plan))


FORGERIES: dict[str, tuple[Callable[[Path], None], str]] = {
    "verdict": (lambda it: edit(it / "gate.json", verdict="no drop"), "claims 'no drop', and it is 'regression'"),
    "number": (lambda it: edit(it / "gate.json", number=2), "claims pull request #2, and its run is of #1"),
    "no number": (lambda it: edit(it / "gate.json", number=None), "claims pull request #None"),
    "base": (lambda it: edit(it / "gate.json", base="b" * 40), "field `base` claims"),
    "head": (lambda it: edit(it / "gate.json", head="c" * 40), "field `head` claims"),
    "run": (lambda it: edit(it / "gate.json", run="gate-1-1"), "field `run` claims"),
    "success": (lambda it: edit_cells(it, "head", success=True, score=1.0), "cells/greeter"),
    "agent": (lambda it: edit_cells(it, "head", agent={"id": "other"}), "cells/greeter"),
    "fewer cases": (drop_case, "run.json: field `cells` is not what base and head commit make of it"),
    "public seeds": (lambda it: edit(it / "run.json", seed_secret=""), "its seeds are public"),
    "old plan": (lambda it: edit(it / "run.json", created="2026-01-01T00:00:00Z"), "run.json: made at 2026-01-01"),
    "sandbox": (lambda it: edit(it / "run.json", sandbox="none"), "ran in the sandbox 'none'"),
    "no claims": (lambda it: (it / "gate.json").unlink(), "gate.json: is missing"),
    "nonsense": (lambda it: edit_text(it / "gate.json", "[" * 5000), "gate.json: field"),
}


EVERY_PUSH = ("verdict", "number", "head", "fewer cases")


@pytest.mark.parametrize(
    "what", [pytest.param(it, marks=[] if it in EVERY_PUSH else pytest.mark.nightly) for it in FORGERIES]
)
def test_a_forged_artifact_is_refused_and_nothing_of_it_is_shown(stage: Stage, what: str) -> None:
    forge, why = FORGERIES[what]
    stage.upload(stage.forged(forge))
    said = stage.say(status=1)
    assert "::error title=ml-dev-bench::refused" in said
    assert why in said.replace("#35;", ""), said
    assert stage.check["conclusion"] == "failure"
    assert stage.check["head_sha"] == stage.commits.broken
    assert "no drop" not in stage.comment.split("refused")[0]
    assert stage.hub.hub.comments_on(2) == [] if len(stage.hub.hub.issues) > 1 else True


@pytest.mark.parametrize(
    ("archive", "why"),
    [
        (b"not an archive", "is not a whole zip archive"),
        (archived({"../../escape.txt": b"x"}), "is not a path inside of it"),
    ],
)
def test_an_archive_that_leaves_its_folder_is_refused(stage: Stage, archive: bytes, why: str) -> None:
    stage.upload(archive)
    assert why in stage.say(status=1)
    assert not list(stage.folder.rglob("escape*"))


def test_a_stale_head_overwrites_nothing(stage: Stage) -> None:
    stage.upload()
    stage.hub.hub.pulls[1]["head"]["sha"] = stage.commits.harmless
    said = stage.say()
    assert "no open pull request has the head" in said
    assert (stage.hub.writes, stage.hub.hub.comments) == ([], [])


def test_an_earlier_run_does_not_replace_what_a_later_one_said(stage: Stage) -> None:
    stage.upload()
    stage.say()
    before = (stage.comment, dict(stage.check))
    older = stage.hub.actions.make_run(RUN - 1, stage.commits.broken, branch="broken")
    older |= times()
    said = stage.say(run=RUN - 1)
    assert said.count("it is of a later run") == 2
    assert (stage.comment, stage.check) == before


def test_a_verdict_that_is_good_again_changes_the_comment_in_place(stage: Stage) -> None:
    stage.upload()
    stage.say()
    pull = stage.hub.hub.pulls[1]
    pull["head"] |= {"sha": stage.commits.docs}
    newer = stage.hub.actions.make_run(RUN + 1, stage.commits.docs, branch="broken")
    newer |= times()
    assert "updated comment" in stage.say(run=RUN + 1)
    assert "ML-Dev-Bench gate: unchanged" in stage.comment
    assert [it["conclusion"] for it in stage.hub.actions.checks] == ["failure", "success"]


@pytest.mark.nightly
def test_good_news_make_no_comment_and_another_s_marker_is_not_ours(stage: Stage) -> None:
    stage.upload()
    stage.say()
    (ours,) = stage.hub.hub.comments
    ours["user"] = {"login": "eve", "type": "User"}
    pull = stage.hub.hub.pulls[1]
    pull["head"] |= {"sha": stage.commits.docs}
    stage.hub.actions.make_run(RUN + 1, stage.commits.docs, branch="broken").update(times())
    before = ours["body"]
    assert "left #1: nothing to say" in stage.say(run=RUN + 1)
    assert ours["body"] == before


def test_a_change_of_the_workflows_is_named(stage: Stage) -> None:
    pull = stage.hub.hub.pulls[1]
    pull["head"] |= {"sha": stage.commits.sneaky}
    stage.hub.actions.make_run(RUN, stage.commits.sneaky, branch="broken").update(times())
    stage.say()
    assert "not proven: this pull request changes" in stage.comment.replace("&#46;", ".").replace("&#58;", ":")


def test_a_gate_that_left_nothing_is_no_success(stage: Stage) -> None:
    stage.say(conclusion="success")
    assert stage.check["conclusion"] == "failure"
    assert "left no records" in stage.comment
    assert "nothing to say" in stage.say(conclusion="cancelled")
    assert "nothing to say" in stage.say(event="push")


def open_aside(stage: Stage, tip: str) -> int:
    """A second pull request of the same head, into a branch of its author's; its number."""
    return int(stage.hub.hub.open_pull(stage.commits.broken, tip, branch="broken", into="aside")["number"])


def unchanged_run(stage: Stage, number: int, tip: str, run: int = RUN + 1) -> None:
    """The honest run of a gate whose base branch has the agent's change already."""
    stage.hub.actions.make_run(run, stage.commits.broken, branch="broken").update(times())
    claims = {"number": number, "base": tip, "head": tip, "run": f"gate-{run}-1", "verdict": "unchanged"}
    stage.upload({"gate.json": json.dumps(claims).encode()}, run=run)


@pytest.mark.parametrize("protected", [False, True])
def test_a_second_pull_request_of_the_same_head_leaves_the_check_of_the_first(stage: Stage, protected: bool) -> None:
    stage.upload()
    stage.say()
    red = dict(stage.check)
    number = open_aside(stage, stage.commits.broken)
    stage.hub.protected |= {"aside"} if protected else set()
    unchanged_run(stage, number, stage.commits.broken)
    said = stage.say(run=RUN + 1)
    assert stage.hub.actions.checks[0] == red
    others = [(it["name"], it["conclusion"]) for it in stage.hub.actions.checks[1:]]
    assert others == ([("ml-dev-bench gate (aside)", "success")] if protected else []), said
    assert protected or "nothing to say of #2 into aside, #1 into main" in said


def test_a_gate_that_left_nothing_is_told_to_every_pull_request_that_may_be_its_own(stage: Stage) -> None:
    open_aside(stage, stage.commits.broken)
    stage.hub.protected |= {"aside"}
    stage.say(conclusion="failure")
    told = {it["name"]: it["conclusion"] for it in stage.hub.actions.checks}
    assert told == {"ml-dev-bench gate (main)": "failure", "ml-dev-bench gate (aside)": "success"}


def test_a_base_branch_that_nobody_watches_may_have_changed_what_ran(stage: Stage) -> None:
    """What runs is the merge of head with a base branch: the workflows of that branch are in it."""
    pull = stage.hub.hub.pulls[1]
    pull["base"] |= {"sha": stage.commits.docs}
    open_aside(stage, stage.commits.sneaky)
    stage.say(conclusion="failure")
    told = html.unescape(stage.comment).replace("\u200b", "")
    assert "not proven: .github/workflows/other.yml differ in aside, the base of #2" in told


def test_the_input_names_the_branches_that_are_judged(stage: Stage) -> None:
    stage.upload()
    assert "nothing to say of #1 into main" in stage.say(branches="release, next")
    assert stage.hub.actions.checks == []


def answered(body: bytes, method: str, path: str) -> tuple[int, bytes]:
    return 200, body


@pytest.mark.nightly
def test_an_answer_of_another_shape_is_one_line(stage: Stage) -> None:
    stage.upload()
    for body in (b"<html>", b"[]", b"{}", b"null"):
        stage.hub.fault = partial(answered, body)
        said = stage.say(status=2) if body != b"[]" else stage.say()
        assert body == b"[]" or "not as GitHub's documentation says" in said
    assert stage.hub.hub.comments == []
