"""The results branch, over real git."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.formats.record import Metric, Record
from bench.store.branch import ResultsBranch
from bench.store.bundle import Bundle, Manifest, schema_of
from bench.store.decisions import Decision
from tests.helpers.records import START, make_check, make_night, make_record
from tests.helpers.store import bundle_of, git, tip_of

ROOT = Path(__file__).parents[2]
MANIFEST = "manifests/2026/11/20/night-1-1.json"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    folder = tmp_path / "deep" / "results.git"
    ResultsBranch(folder).ensure()
    return folder


def test_a_bundle_becomes_one_commit_with_the_layout_of_the_design(bare: Path) -> None:
    records = make_night()
    done = ResultsBranch(bare).commit(bundle_of(records))
    assert done.new
    assert done.commit == tip_of(bare)
    agents = sorted({record.agent.id for record in records})
    assert git(bare, "ls-tree", "-r", "--name-only", "mldb-results").split() == [
        "keys/6d/night-1-1",
        MANIFEST,
        *(f"runs/2026/11/20/night-1-1-{agent}.jsonl" for agent in agents),
        "schema/decision-1.json",
        "schema/manifest-1.json",
        "schema/record-1.json",
    ]
    assert git(bare, "show", "mldb-results:keys/6d/night-1-1") == f"{MANIFEST}\n"
    (manifest,) = ResultsBranch(bare).manifests()
    assert manifest.path == MANIFEST
    assert [file.path for file in manifest.files] == [f"runs/2026/11/20/night-1-1-{agent}.jsonl" for agent in agents]
    assert git(bare, "rev-list", "--count", "mldb-results").strip() == "1"
    author = git(bare, "log", "-1", "--format=%an <%ae> %cn <%ce>", "mldb-results").strip()
    assert author == "ml-dev-bench <results@ml-dev-bench.invalid> ml-dev-bench <results@ml-dev-bench.invalid>"
    for model in (Record, Manifest, Decision):
        stored = git(bare, "show", f"mldb-results:schema/{model.__name__.lower()}-1.json").encode()
        assert stored == schema_of(model)
    assert git(bare, "fsck", "--strict", "--full") == ""


def test_records_come_back_as_they_went_in(bare: Path) -> None:
    message = "two\u2028lines \x85 \r\n \x00 <script> \U0001f600"
    hostile = make_record(agent="zz", checks=[make_check("a", 0.0, message)])
    records = [*make_night(), hostile]
    branch = ResultsBranch(bare)
    branch.commit(bundle_of(records))
    assert list(branch.records()) == sorted(records, key=lambda record: (record.agent.id, record.cell))


def test_lines_are_sorted_by_cell_whatever_the_order_given(bare: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.git"
    ResultsBranch(other).ensure()
    records = make_night()
    ResultsBranch(bare).commit(bundle_of(records))
    ResultsBranch(other).commit(bundle_of(records[::-1]))
    assert git(bare, "rev-parse", "mldb-results^{tree}") == git(other, "rev-parse", "mldb-results^{tree}")


def test_manifests_describe_the_files_and_form_a_chain(bare: Path) -> None:
    branch = ResultsBranch(bare)
    runs = ["night-1", "night-2", "early"]
    for days, run in zip((0, 1, -3), runs, strict=True):
        branch.commit(bundle_of(run=run, days=days))
    previous = None
    for day, run in zip(("20", "21", "17"), runs, strict=True):
        text = git(bare, "show", f"mldb-results:manifests/2026/11/{day}/{run}-1.json")
        manifest = json.loads(text)
        assert manifest["previous"] == previous
        previous = sha256_bytes(text.encode())
        for file in manifest["files"]:
            content = git(bare, "show", f"mldb-results:{file['path']}").encode()
            assert (file["digest"], file["size"]) == (sha256_bytes(content), len(content))
            assert file["records"] == content.count(b"\n")
        assert sum(manifest["outcomes"].values()) == sum(file["records"] for file in manifest["files"])
        assert [place["run"] for place in manifest["provenance"]] == [run]


def test_hooks_and_configuration_of_the_user_do_not_matter(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap, home = tmp_path / "trap", tmp_path / "home"
    for hooks in (bare / "hooks", home / "hooks"):
        hooks.mkdir(parents=True)
        for name in ("reference-transaction", "pre-commit", "pre-push", "post-commit", "commit-msg", "update"):
            hook = hooks / name
            hook.write_text(f"#!/bin/sh\ntouch {trap}\nexit 1\n")
            hook.chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[user]\n\tname = Mallory\n\temail = m@m\n[core]\n\thooksPath = {home}/hooks\n\tautocrlf = true\n"
        "[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = false\n[i18n]\n\tcommitEncoding = latin1\n"
        "[push]\n\tgpgSign = true\n"
    )
    monkeypatch.setenv("HOME", str(home))
    for name, value in {
        "GIT_DIR": "/nowhere",
        "GIT_INDEX_FILE": "/nowhere/index",
        "GIT_AUTHOR_NAME": "Mallory",
        "GIT_WORK_TREE": "/nowhere",
        "GIT_OBJECT_DIRECTORY": "/nowhere",
    }.items():
        monkeypatch.setenv(name, value)
    assert ResultsBranch(bare).commit(bundle_of()).new
    assert not trap.exists()
    # The other side of a push has hooks of its own right, and here it is the same user: only ours must not run.
    for hook in [*(bare / "hooks").iterdir(), home / "hooks" / "update", home / "hooks" / "reference-transaction"]:
        hook.unlink()
    assert ResultsBranch(f"file://{bare}").commit(bundle_of(run="night-2")).new
    assert not trap.exists()
    monkeypatch.undo()
    assert set(git(bare, "log", "--format=%an", "mldb-results").split()) == {"ml-dev-bench"}


def test_a_remote_is_used_by_push_and_read_back(bare: Path) -> None:
    git(bare, "config", "uploadpack.allowFilter", "true")
    branch = ResultsBranch(f"file://{bare}")
    branch.ensure()
    assert list(branch.records()) == []
    for n in range(3):
        assert branch.commit(bundle_of(run=f"night-{n}")).new
    assert not branch.commit(bundle_of(run="night-1")).new
    assert len(list(branch.records())) == 3 * len(make_night())
    assert list(branch.records()) == list(ResultsBranch(bare).records())
    assert git(bare, "rev-list", "--count", "mldb-results").strip() == "3"
    with pytest.raises(UserError, match="stored already"):
        branch.commit(bundle_of([make_record(run="night-1")], run="night-1"))


def test_a_remote_that_refuses_is_a_clear_error_without_its_password(bare: Path) -> None:
    (bare / "hooks").mkdir(exist_ok=True)
    hook = bare / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'GH006: Protected branch update failed' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(UserError, match="Protected branch"):
        ResultsBranch(f"file://{bare}").commit(bundle_of())
    with pytest.raises(UserError) as caught:
        ResultsBranch("http://bob:hunter2@127.0.0.1:9/x.git").ensure()
    assert "hunter2" not in str(caught.value)


def test_an_ordinary_repository_keeps_its_work_tree_and_a_checked_out_branch_is_refused(tmp_path: Path) -> None:
    project = tmp_path / "project"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(project))
    (project / "a.txt").write_text("a\n")
    git(project, "add", "a.txt")
    git(project, "commit", "--quiet", "-m", "a")
    main = tip_of(project, "main")
    branch = ResultsBranch(project)
    branch.ensure()
    assert branch.commit(bundle_of()).new
    assert git(project, "status", "--porcelain") == ""
    assert tip_of(project, "main") == main
    linked = tmp_path / "linked"
    git(project, "worktree", "add", "--quiet", str(linked), "mldb-results")
    for place in (project, linked):
        with pytest.raises(UserError, match="has the branch mldb-results checked out"):
            ResultsBranch(place).commit(bundle_of(run="night-2"))


def test_manifests_are_listed_oldest_first(bare: Path) -> None:
    branch = ResultsBranch(bare)
    branch.commit(bundle_of([make_record(run="b"), make_record(run="b", trial=2, outcome="infra")], run="b", days=1))
    branch.commit(bundle_of([make_record(run="a", agent="x")], run="a", attempt=3))
    first, second = branch.manifests()
    assert (first.run, first.attempt, [file.agent for file in first.files]) == ("a", 3, ["x"])
    assert datetime.fromisoformat(first.started) == START
    assert (sum(file.records for file in second.files), second.outcomes) == (2, {"graded": 1, "infra": 1})


def test_an_empty_branch_has_no_records_and_no_runs(bare: Path) -> None:
    assert list(ResultsBranch(bare).records()) == []
    assert ResultsBranch(bare).manifests() == []


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("runs/2026/11/20/bad.jsonl", b'{"schema": 1}\n', r"runs/2026/11/20/bad.jsonl:1: field"),
        ("runs/2026/11/20/bad.jsonl", b"{}", r"bad.jsonl: does not end with a line break"),
        ("runs/2026/11/20/bad.jsonl", b"\n", r"bad.jsonl:1: field `document`"),
        ("runs/notes.txt", b"hello\n", r"runs/notes.txt: is not a .jsonl file"),
    ],
)
def test_readers_skip_nothing_silently(bare: Path, path: str, content: bytes, message: str) -> None:
    branch = ResultsBranch(bare)
    branch.commit(bundle_of([make_record()]))
    blob = git(bare, "hash-object", "-w", "--stdin", stdin=content).strip()
    environment = {**os.environ, "GIT_INDEX_FILE": str(bare / "test-index")}
    for command in (
        ["read-tree", "mldb-results"],
        ["update-index", "--add", "--cacheinfo", f"100644,{blob},{path}"],
        ["write-tree"],
    ):
        whole = ["git", f"--git-dir={bare}", *command]
        tree = subprocess.run(whole, env=environment, check=True, capture_output=True, text=True).stdout.strip()
    git(bare, "update-ref", "refs/heads/mldb-results", git(bare, "commit-tree", tree, "-m", "x").strip())
    with pytest.raises(UserError, match=message):
        list(branch.records())


def test_another_wording_of_the_schema_gets_its_own_file(bare: Path) -> None:
    blob = git(bare, "hash-object", "-w", "--stdin", stdin=b"{}\n").strip()
    inner = git(bare, "mktree", stdin=f"100644 blob {blob}\trecord-1.json\n".encode()).strip()
    tree = git(bare, "mktree", stdin=f"040000 tree {inner}\tschema\n".encode()).strip()
    git(bare, "update-ref", "refs/heads/mldb-results", git(bare, "commit-tree", tree, "-m", "old").strip())
    branch = ResultsBranch(bare)
    for run in ("one", "two"):
        branch.commit(bundle_of([make_record(run=run)], run=run))
    digest = sha256_bytes(schema_of(Record)).removeprefix("sha256:")[:12]
    names = git(bare, "ls-tree", "-r", "--name-only", "mldb-results", "schema").split()
    plain = ["schema/decision-1.json", "schema/manifest-1.json"]
    assert names == [*plain, f"schema/record-1-{digest}.json", "schema/record-1.json"]
    assert git(bare, "show", "mldb-results:schema/record-1.json") == "{}\n"


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"run": "../../etc"}, "is not a run name"),
        ({"run": "a\n"}, "is not a run name"),
        ({"attempt": 0}, "count from 1"),
        ({"records": []}, "has no records"),
        ({"started": datetime(2026, 1, 1)}, "no time zone"),
        ({"run": "other"}, "belongs to run night-1, not to other"),
        ({"records": [make_record(), make_record(steps=1)]}, "has 1 cells twice"),
    ],
)
def test_a_bundle_that_makes_no_sense_is_refused(facts: dict[str, object], message: str) -> None:
    whole: dict[str, object] = {"run": "night-1", "attempt": 1, "records": [make_record()], "started": START, **facts}
    with pytest.raises(UserError, match=message):
        Bundle(**whole)  # type: ignore[arg-type]


def test_the_folder_is_the_day_in_utc() -> None:
    eastern = datetime(2026, 11, 21, 1, 0, tzinfo=timezone(timedelta(hours=5)))
    assert Bundle("night-1", 1, [make_record()], eastern).day == "2026/11/20"
    assert eastern.astimezone(UTC).day == 20


def test_what_would_not_read_back_is_not_stored(bare: Path) -> None:
    infinite = make_record(metrics=[Metric.model_construct(name="loss", value=float("inf"))])
    lonely = make_record(error="\ud800")
    for record in (infinite, lonely):
        with pytest.raises(UserError, match=r"cell react/anthropic"):
            ResultsBranch(bare).commit(bundle_of([record]))
    assert ResultsBranch(bare).manifests() == []


def test_places_that_are_no_repository_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(UserError, match="is not a git repository"):
            ResultsBranch(path).ensure()
    with pytest.raises(UserError, match="is not a git repository"):
        list(ResultsBranch(tmp_path / "missing").records())
    with pytest.raises(UserError, match="is not a branch name"):
        ResultsBranch(tmp_path, "a b")


def test_a_relative_path_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    branch = ResultsBranch("results.git")
    branch.ensure()
    branch.ensure()
    assert branch.commit(bundle_of()).new
    assert (tmp_path / "results.git" / "HEAD").is_file()
