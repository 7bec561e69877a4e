"""Everything that writes to the results branch, in each of the ways: a repository here, a push, GitHub's API."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.store.append import RetriesExhausted, RetryPolicy
from bench.store.branch import ResultsBranch
from tests.helpers.records import make_record
from tests.helpers.sampling import on_push
from tests.helpers.store import BRANCH, HASTY, WAYS, Target, bundle_of, edit, git, make_bare, open_target, tip_of
from tests.workflows.rehearsal.githost import git_host

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=on_push(WAYS, ["local", "api"]))
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    with open_target(request.param, tmp_path, monkeypatch) as found:
        yield found


def test_every_way_makes_the_same_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees = set()
    for way in WAYS:
        with open_target(way, tmp_path / way, monkeypatch) as target:
            branch = target.branch()
            branch.ensure()
            for number in range(3):
                assert branch.commit(bundle_of(run=f"night-{number}", days=40 * number)).new
            trees.add(git(target.bare, "rev-parse", f"{BRANCH}^{{tree}}"))
            author = git(target.bare, "log", "-1", "--format=%an <%ae> %cn <%ce>", BRANCH).strip()
            assert author == " ".join(["ml-dev-bench <results@ml-dev-bench.invalid>"] * 2)
            assert git(target.bare, "fsck", "--strict", "--full") == ""
    assert len(trees) == 1


def test_one_commit_a_run_and_every_commit_only_adds(target: Target) -> None:
    branch = target.branch()
    commits = [branch.commit(bundle_of(run=f"night-{number}", days=number)).commit for number in range(3)]
    again = branch.commit(bundle_of(run="night-1", days=1))
    assert not again.new
    assert git(target.bare, "rev-list", "--reverse", BRANCH).split() == commits
    previous = None
    for number, commit in enumerate(commits):
        text = git(target.bare, "show", f"{commit}:manifests/2026/11/{20 + number}/night-{number}-1.json")
        assert json.loads(text)["previous"] == previous
        previous = sha256_bytes(text.encode())
    for older, newer in pairwise(commits):
        changes = git(target.bare, "diff", "--no-renames", "--name-status", older, newer).splitlines()
        assert {line.split("\t")[0] for line in changes} == {"A"}


@pytest.mark.parametrize("days", [0, 1, 400])
def test_the_same_run_with_other_content_or_another_day_is_refused(target: Target, days: int) -> None:
    branch = target.branch()
    branch.commit(bundle_of([make_record(steps=3)]))
    tip = tip_of(target.bare)
    with pytest.raises(UserError, match=r"night-1, attempt 1, is stored already.*never rewritten"):
        branch.commit(bundle_of([make_record(steps=3 if days else 4)], days=days))
    assert tip_of(target.bare) == tip


def test_a_path_taken_by_other_content_is_refused(target: Target) -> None:
    branch = target.branch()
    branch.commit(bundle_of([make_record(agent="b", run="a-1")], run="a-1"))
    with pytest.raises(UserError, match=r"runs/2026/11/20/a-1-1-b.jsonl: is on the results branch already"):
        branch.commit(bundle_of([make_record(agent="1-b", run="a")], run="a"))
    edit(target.bare, {"runs/2026/11/21": b"a file where a folder belongs"})
    with pytest.raises(UserError, match=r"runs/2026/11/21: is a file where a folder is needed"):
        branch.commit(bundle_of(run="night-2", days=1))


def test_commits_of_others_are_stepped_over_and_kept(target: Target) -> None:
    branch = target.branch()
    branch.commit(bundle_of(run="night-1"))
    first = git(target.bare, "show", f"{BRANCH}:manifests/2026/11/20/night-1-1.json")
    for number in range(3):
        edit(target.bare, {"README.md": b"by hand %d" % number})
    branch.commit(bundle_of(run="night-2"))
    second = json.loads(git(target.bare, "show", f"{BRANCH}:manifests/2026/11/20/night-2-1.json"))
    assert second["previous"] == sha256_bytes(first.encode())
    assert git(target.bare, "show", f"{BRANCH}:README.md") == "by hand 2"


def test_a_branch_that_lost_its_last_manifest_or_its_history_takes_no_more(target: Target) -> None:
    branch = target.branch()
    branch.commit(bundle_of(run="night-1"))
    edit(target.bare, {"manifests/2026/11/20/night-1-1.json": None})
    with pytest.raises(UserError, match=r"night-1-1.json: is the last stored manifest, and the file is missing"):
        branch.commit(bundle_of(run="night-2"))
    edit(target.bare, {"manifests/2026/11/20/night-1-1.json": b"{}"}, "new history", amend=False)
    tree = git(target.bare, "rev-parse", f"{BRANCH}^{{tree}}").strip()
    orphan = git(target.bare, "commit-tree", tree, "-m", "without a past").strip()
    git(target.bare, "update-ref", f"refs/heads/{BRANCH}", orphan)
    with pytest.raises(UserError, match="no commit names the manifest that was stored last"):
        branch.commit(bundle_of(run="night-2"))


def test_a_branch_from_before_the_register_gets_one(target: Target) -> None:
    branch = target.branch()
    for number in range(3):
        branch.commit(bundle_of(run=f"night-{number}", days=number))
    keys = git(target.bare, "ls-tree", "-r", "--name-only", BRANCH, "keys/").split()
    assert len(keys) == 3
    # As the first version wrote it: no register, and a trailer without a digest.
    edit(target.bare, dict.fromkeys(keys), "Results\n\nManifest: manifests/2026/11/22/night-2-1.json", amend=True)
    assert not branch.commit(bundle_of(run="night-1", days=1)).new
    with pytest.raises(UserError, match="is stored already"):
        branch.commit(bundle_of(run="night-1", days=2))
    assert branch.commit(bundle_of(run="night-3", days=3)).new
    assert len(git(target.bare, "ls-tree", "-r", "--name-only", BRANCH, "keys/").split()) == 4
    last = json.loads(git(target.bare, "show", f"{BRANCH}:manifests/2026/11/23/night-3-1.json"))
    held = git(target.bare, "show", f"{BRANCH}:manifests/2026/11/22/night-2-1.json")
    assert last["previous"] == sha256_bytes(held.encode())


def reject(target: Target, share: float, seed: int = 5) -> None:
    """From now on the other side turns away that share of all attempts, at random."""
    if target.service is not None:
        rng = random.Random(seed)
        answers = [(500, "Server Error"), (403, "You have exceeded a secondary rate limit."), (502, "Bad Gateway")]
        target.service.fault = lambda method, path: rng.choice(answers) if rng.random() < share / 3 else None
        return
    name = "pre-receive" if target.address.startswith("file:") else "reference-transaction"
    hook = target.bare / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    # An odd byte of a random device, so that all tries of all writers draw anew.
    hook.write_text(f"#!/bin/sh\n[ $(od -An -N1 -tu1 /dev/urandom) -ge {int(256 * share)} ]\n")
    hook.chmod(0o755)


def test_what_may_pass_is_tried_again(target: Target) -> None:
    reject(target, 0.4)
    branch = target.branch()
    commits = [branch.commit(bundle_of([make_record(run=f"r-{n}")], run=f"r-{n}")).commit for n in range(4)]
    assert git(target.bare, "rev-list", "--reverse", BRANCH).split() == commits


def test_it_gives_up_after_twelve_tries_and_changes_nothing(target: Target) -> None:
    if target.address == str(target.bare):
        (target.bare / "refs" / "heads" / f"{BRANCH}.lock").write_text("")
    else:
        reject(target, 1.0 if target.service is None else 3.0)
    with pytest.raises(RetriesExhausted, match=r"was not stored in 12 tries: .*nothing was changed; store it again"):
        target.branch(RetryPolicy(first_wait_s=0.001, longest_wait_s=0.002)).commit(bundle_of())
    assert git(target.bare, "for-each-ref", f"refs/heads/{BRANCH}") == ""


def test_it_gives_up_when_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_target("remote", tmp_path, monkeypatch) as target:
        reject(target, 1.0)
        began = time.monotonic()
        with pytest.raises(RetriesExhausted, match=r"was not stored in \d tries"):
            target.branch(RetryPolicy(seconds=2.0, first_wait_s=0.3)).commit(bundle_of())
        assert time.monotonic() - began < 60


RACER = """
import sys
from bench.store.branch import ResultsBranch
from bench.store.bundle import Bundle
from tests.helpers.records import START, make_record
address, via, number, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
print("ready", flush=True)
sys.stdin.readline()
for turn in range(rounds):
    run = f"racer-{number}-{turn}"
    branch = ResultsBranch(address, via=via, pause_s=0)
    assert branch.commit(Bundle(run, 1, [make_record(run=run)], START)).new
"""


def test_racing_processes_all_land(target: Target) -> None:
    racers, rounds = 8, 1
    command = [sys.executable, "-c", RACER, target.address, target.via]
    processes = [
        subprocess.Popen([*command, str(n), str(rounds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
        for n in range(racers)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=240)
    assert [process.returncode for process in processes] == [0] * racers
    wanted = {f"racer-{n}-{turn}" for n in range(racers) for turn in range(rounds)}
    branch = ResultsBranch(target.bare)
    assert {run.run for run in branch.manifests()} == wanted
    assert {record.provenance.run for record in branch.records()} == wanted
    history = git(target.bare, "log", "--format=%H %P", BRANCH).splitlines()
    assert len(history) == racers * rounds
    assert all(len(line.split()) <= 2 for line in history)
    named = [manifest.previous for manifest in branch.manifests()]
    assert len(set(named)) == len(named), "two manifests follow the same one"


def grow(bare: Path, days: int, files: int) -> None:
    """A long past, made quickly: `days` folders of `files` files each, in one commit."""
    lines = ["commit refs/heads/past", "committer t <t@t.invalid> 1700000000 +0000", "data 4", "past"]
    for day in range(days):
        for number in range(files):
            content = f"{day} {number} {random.Random(day * files + number).random()}"
            folder = f"runs/{2020 + day // 360}/{day // 30 % 12 + 1:02}/{day % 30 + 1:02}"
            lines += [f"M 100644 inline {folder}/past-{number}.jsonl", f"data {len(content)}", content]
    git(bare, "fast-import", "--quiet", stdin="\n".join([*lines, ""]).encode())
    blob = git(bare, "rev-parse", "past:runs").strip()
    tree = git(bare, "ls-tree", BRANCH).replace("\truns\n", "\told\n") + f"040000 tree {blob}\truns\n"
    made = git(bare, "mktree", stdin=tree.encode()).strip()
    commit = git(bare, "commit-tree", made, "-p", BRANCH, "-m", "a long past").strip()
    git(bare, "update-ref", f"refs/heads/{BRANCH}", commit)


def test_what_is_transferred_does_not_grow_with_the_branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[int] = []
    for days in (1, 400):
        folder = tmp_path / str(days)
        bare = make_bare(folder / "results.git")
        ResultsBranch(bare).commit(bundle_of([make_record()]))
        grow(bare, days, 40)
        packs = folder / "packs"
        monkeypatch.setenv("GIT_TRACE_PACKFILE", str(packs))
        address = f"file://{bare}"
        assert ResultsBranch(address, retry=HASTY).commit(bundle_of([make_record(run="late")], run="late")).new
        monkeypatch.delenv("GIT_TRACE_PACKFILE")
        received.append(packs.stat().st_size)
        assert int(git(bare, "rev-list", "--count", "--objects", BRANCH)) > 40 * days
    assert received[1] < received[0] + 4000, received


@pytest.mark.parametrize("old", ["protocol", "filter"])
def test_hosts_that_give_out_no_part_of_a_commit_are_used_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str
) -> None:
    bare = make_bare(tmp_path / "results.git")
    git(bare, "config", "http.receivepack", "true")
    if old == "protocol":
        git(bare, "config", "uploadpack.allowFilter", "true")
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", "protocol.version")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", "0")
    with git_host(tmp_path, "secret") as host:
        address = host.replace("://", "://x-access-token:secret@") + "/results.git"
        branch = ResultsBranch(address, retry=HASTY)
        for number in range(3):
            assert branch.commit(bundle_of(run=f"night-{number}", days=number)).new
        assert not branch.commit(bundle_of(run="night-1", days=1)).new
    assert len(ResultsBranch(bare).manifests()) == 3


def test_a_token_that_may_not_write_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_target("api", tmp_path, monkeypatch) as target:
        assert target.service is not None
        monkeypatch.setenv("MLDB_TOKEN", "wrong")
        with pytest.raises(UserError, match=r"GitHub answered 401: Bad credentials \(check that the token may write"):
            target.branch().commit(bundle_of())
        monkeypatch.setenv("MLDB_TOKEN", "")
        for name in ("GITHUB_TOKEN", "GH_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(UserError, match=r"no token .*MLDB_TOKEN"):
            target.branch().commit(bundle_of())
        monkeypatch.setenv("MLDB_TOKEN", "sesame")
        target.service.fault = lambda method, path: (
            (422, "Protected branch update failed") if method == "POST" else None
        )
        with pytest.raises(UserError, match="Protected branch"):
            target.branch().commit(bundle_of())
        with pytest.raises(UserError, match="is not the name of a repository on GitHub"):
            ResultsBranch("git@github.com:a/b.git", via="api").commit(bundle_of())


def test_an_empty_repository_is_named_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_target("api", tmp_path, monkeypatch) as target:
        git(target.bare, "update-ref", "-d", "refs/heads/main")
        with pytest.raises(UserError, match=r"409: Git Repository is empty.*make a first commit there"):
            target.branch().commit(bundle_of())


def test_a_second_try_does_not_send_the_files_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_target("api", tmp_path, monkeypatch) as target:
        assert target.service is not None
        target.branch().commit(bundle_of(run="night-0"))
        once = target.service.received
        lost: list[str] = []

        def beaten(method: str, path: str) -> tuple[int, str] | None:
            if method == "PATCH" and len(lost) < 3:
                lost.append(path)
                return 422, "Update is not a fast forward"
            return None

        target.service.fault = beaten
        target.branch().commit(bundle_of(run="night-1"))
        assert len(lost) == 3
        assert target.service.received - once < 1.2 * once


def test_an_answer_without_what_was_asked_for_is_as_good_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_target("api", tmp_path, monkeypatch) as target:
        assert target.service is not None
        target.branch().commit(bundle_of(run="night-0"))
        hollow: set[str] = set()

        def once(method: str, path: str) -> tuple[int, str] | None:
            kind = path.split("/git/")[1].split("/", maxsplit=1)[0]
            if method == "GET" and kind in ("ref", "commits") and kind not in hollow:
                hollow.add(kind)
                return 200, "something else"
            return None

        target.service.fault = once
        assert target.branch().commit(bundle_of(run="night-1")).new
        assert hollow == {"ref", "commits"}
        target.service.fault = lambda method, path: (200, "something else")
        with pytest.raises(RetriesExhausted, match="GitHub answered without object"):
            target.branch().commit(bundle_of(run="night-2"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", on_push(["ref", "commits", "trees", "refs"], ["commits"]))
def test_an_answer_of_another_shape_is_as_good_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Whatever the body is, and whichever request it answers; at the worst, one line says what GitHub refused then."""
    bodies: list[object] = [b"{", b"\xff", b"null", [None], {"object": {"sha": {}}, "sha": 5}]
    bodies += [{"sha": "a" * 40, "tree": 5, "parents": [None], "message": 5}, b"[" * 50_000]
    with open_target("api", tmp_path, monkeypatch) as target:
        assert target.service is not None
        target.branch().commit(bundle_of(run="night-0"))
        for number, body in enumerate(bodies):
            odd: list[object] = [body]

            def fault(method: str, path: str, odd: list[object] = odd) -> tuple[int, object] | None:
                return (200, odd.pop()) if odd and path.split("/git/")[1].split("/", 1)[0] == kind else None

            target.service.fault = fault
            with contextlib.suppress(UserError):
                assert target.branch().commit(bundle_of(run=f"night-{number + 1}")).new, body


def test_large_and_binary_files_travel_as_blobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    monkeypatch.setattr("bench.store.git.github_api._REQUEST_BYTES", 20_000)
    with open_target("api", tmp_path, monkeypatch) as target:
        assert target.service is not None
        inline = {"traces/sha256/ab/x.tar.gz": os.urandom(3000)}
        done = target.branch().commit(replace(bundle_of(), inline=inline))
        made = [path.rpartition("/")[2] for method, path in target.service.asked if method == "POST"]
        assert made.count("blobs") >= 1
        assert made.count("trees") >= 2
        shown = subprocess.run(
            ["git", "-C", str(target.bare), "show", f"{done.commit}:traces/sha256/ab/x.tar.gz"],
            check=True,
            capture_output=True,
        )
        assert shown.stdout == inline["traces/sha256/ab/x.tar.gz"]
        assert list(ResultsBranch(target.bare).records()) != []
