"""Which files of a folder are the agent, with real repositories, hostile ones among them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.base.errors import UserError
from bench.base.foreign_git import commit_of
from bench.formats.agent import load_agent
from bench.formats.agent_files import agent_files
from tests.helpers.cells import make_agent, write_files

KEY = "-----BEGIN PRIVATE KEY-----\nx\n"
CERTIFICATES = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
OURS = ("agent.yaml", "main.py", "notes/plan.md", "vendor/cacert.pem")
SECRETS = (
    *(
        ".env",
        ".env.local",
        "deep/.envrc",
        ".netrc",
        ".ssh/config",
        ".aws/credentials",
        "deep/id_ed25519",
        "id_rsa.pub",
    ),
    *("tls.pem", "deep/TLS.PEM", "server.key", ".npmrc", ".git-credentials", "infra/x.tfstate"),
)
CLUTTER = (
    *("runs/old/run.json", "cassettes/a.yaml", "__pycache__/main.pyc", ".venv/x", "web/node_modules/x.js"),
    *("env/pyvenv.cfg", "env/lib/x.py", "out/run.json", "out/cells/a.json", "cache/CACHEDIR.TAG", "cache/hidden.npz"),
    *("cases/debugging/a/case.yaml", "cases/debugging/a/check.py", "cases/debugging/a/solution/x.py"),
)


def git(folder: Path, *arguments: str) -> None:
    name = ["-c", "user.name=x", "-c", "user.email=x@invalid", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *name, *arguments], check=True, capture_output=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of an agent, with keys and clutter in it, and without a repository."""
    files = dict.fromkeys((*OURS, *SECRETS, *CLUTTER), "x")
    return write_files(tmp_path / "mine", {**files, "tls.pem": KEY, "vendor/cacert.pem": CERTIFICATES})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of the user, for settings of git that are the user's own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path / "home"


def test_without_git_it_is_all_but_the_list(folder: Path) -> None:
    assert agent_files(folder).names == OURS


def test_with_git_it_is_what_git_keeps_but_the_list(folder: Path, home: Path) -> None:
    git(folder, "init", "-q")
    write_files(folder, {".gitignore": "*.log\n/data/\n", "a.log": "", "data/big.bin": "", "tracked.log": "x"})
    git(folder, "add", "--force", ".", "tracked.log")
    git(folder, "commit", "-qm", "everything, keys too")
    write_files(folder, {"new.py": "", "b.log": "", "new\nline.py": ""})
    (folder / "notes" / "plan.md").unlink()
    git(folder, "config", "http.https://github.com/.extraheader", "AUTHORIZATION: basic c2VjcmV0")
    write_files(home / ".config", {"git/ignore": "mine.txt\n"})
    write_files(folder, {"mine.txt": ""})
    # What is tracked is the agent's, also where a rule would ignore it.
    wanted = {".gitignore", "a.log", "agent.yaml", "data/big.bin", "main.py", "new\nline.py", "new.py", "tracked.log"}
    found = agent_files(folder)
    assert set(found.names) == wanted | {"vendor/cacert.pem"}
    assert {".git/", ".env", "b.log", "mine.txt", "runs/", "cassettes/"} <= set(found.left_out)
    assert found.count_left_out == len(found.left_out)


def test_the_description_belongs_to_it_and_a_folder_of_packages_where_it_says_so(tmp_path: Path) -> None:
    agent = make_agent(tmp_path, "pass", include=["node_modules", "dist/lib", "absent"])
    files = {".gitignore": "*\n", "node_modules/a/x.js": "", "node_modules/a/.env": "", "dist/lib/y": "", "dist/z": ""}
    write_files(agent.folder, files)
    git(agent.folder, "init", "-q")
    names = load_agent(agent.folder).files.names
    assert names == ("agent.yaml", "dist/lib/y", "node_modules/a/x.js")
    for wrong in ("..", "../x", "/etc", "a/../b", "a/", ".", ""):
        with pytest.raises(UserError, match="include"):
            make_agent(tmp_path, "pass", include=[wrong])


def test_a_repository_around_it_that_ignores_it_does_not_keep_it(tmp_path: Path) -> None:
    write_files(tmp_path, {".gitignore": ".tools/\n", ".tools/site/agent/main.py": "", ".tools/site/agent/.env": ""})
    git(tmp_path, "init", "-q")
    assert agent_files(tmp_path / ".tools" / "site" / "agent").names == ("main.py",)


def test_repositories_inside_it_follow_the_same_rule(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "mine", {"main.py": "", "empty/.gitkeep": ""})
    inner = write_files(folder / "vendor" / "tool", {"x.py": "", ".gitignore": "secret.txt\n", "secret.txt": "s"})
    git(folder, "init", "-q")
    git(inner, "init", "-q")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "x")
    names = ("empty/.gitkeep", "main.py", "vendor/tool/.gitignore", "vendor/tool/x.py")
    assert agent_files(folder).names == names
    git(folder, "add", "vendor/tool")
    assert agent_files(folder).names == names, "as a module"
    shutil.rmtree(inner)
    inner.mkdir()
    assert agent_files(folder).names == names[:2], "as a module that was not fetched"


def test_links_and_special_files(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "mine", {"main.py": "", "sub/x.py": "", ".env": "KEY=1"})
    outside = write_files(tmp_path / "outside", {"secret.txt": "s"})
    links = {
        "a": "main.py",
        "sub/b": "../main.py",
        "c": str(outside / "secret.txt"),
        "sub/d": "../../outside/secret.txt",
    }
    links |= {"e": "/etc/passwd", "f": "sub/../../outside", "g": "nothing", "whole": str(outside)}
    for name, target in links.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))
    for _ in range(2):
        found = agent_files(folder)
        assert found.names == ("a", "g", "main.py", "sub/b", "sub/x.py")
        git(folder, "init", "-q")
    found.copy(tmp_path / "copy")
    assert os.readlink(tmp_path / "copy" / "sub" / "b") == "../main.py"
    assert sorted(path.name for path in (tmp_path / "copy").rglob("*")) == ["a", "b", "g", "main.py", "sub", "x.py"]


def test_a_folder_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    """Git's index still names the files that were in it."""
    folder = write_files(tmp_path / "mine", {"main.py": "", "sub/secret.txt": "mine"})
    outside = write_files(tmp_path / "outside", {"secret.txt": "of the machine"})
    git(folder, "init", "-q")
    git(folder, "add", ".")
    shutil.rmtree(folder / "sub")
    (folder / "sub").symlink_to(outside)
    assert agent_files(folder).names == ("main.py",)


def test_without_the_program_git(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(folder, "init", "-q")
    write_files(folder, {".gitignore": "big.bin\n", "big.bin": ""})
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert agent_files(folder).names == tuple(sorted({*OURS, ".gitignore", "big.bin"}))
    assert commit_of(folder) == ("", False)


def hostile(settings: Callable[[str], str]) -> Callable[[Path, Path], None]:
    def write(folder: Path, mark: Path) -> None:
        with (folder / ".git" / "config").open("a") as file:
            file.write(settings(f"touch {mark}; false"))

    return write


def with_hooks(folder: Path, mark: Path) -> None:
    for name in ("post-index-change", "post-checkout", "pre-commit", "fsmonitor-watchman", "query-watchman"):
        hook = folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
        hook.chmod(0o755)


def with_attributes(folder: Path, mark: Path) -> None:
    """Filters run when a file looks changed and its content is compared."""
    name = 'filter "a=b.c"'
    with (folder / ".git" / "config").open("a") as file:
        file.write(f'[{name}]\nclean = "touch {mark}; cat"\nsmudge = "touch {mark}"\nprocess = "touch {mark}"\n')
        file.write(f'required = true\n[filter "z"]\nclean = "touch {mark}; cat"\nrequired\n')
        file.write(f'[diff "z"]\ntextconv = "touch {mark}; cat"\ncommand = "touch {mark}"\n')
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "attributes").write_text("* filter=z diff=z\n")
    write_files(folder, {".gitattributes": "*.py filter=a=b.c\n"})
    os.utime(folder / "main.py", (1, 1))


def as_partial_clone(folder: Path, mark: Path) -> None:
    """Git fetches what a partial clone lacks, here the rules of what it ignores."""
    write_files(folder, {".gitignore": "x\n"})
    git(folder, "add", ".")
    git(folder, "update-index", "--skip-worktree", ".gitignore")
    (folder / ".gitignore").unlink()
    shutil.rmtree(folder / ".git" / "objects")
    (folder / ".git" / "objects").mkdir()
    with (folder / ".git" / "config").open("a") as file:
        file.write("[core]\nrepositoryformatversion = 1\n[extensions]\npartialClone = origin\n")
        file.write(f'[remote "origin"]\npromisor = true\nurl = "ext::touch {mark}"\n')
        file.write(f'uploadpack = "touch {mark}; false"\n[protocol "ext"]\nallow = always\n')


HOSTILE = {
    "fsmonitor": hostile(lambda run: f'[core]\nfsmonitor = "{run}"\n'),
    "fsmonitor again": hostile(lambda run: f'[core]\nfsmonitor = "{run}"\nfsmonitorHookVersion = 1\n'),
    "hooksPath": hostile(lambda run: f'[core]\nhooksPath = hooks\nfsmonitor = true\npager = "{run}"\n'),
    "alias": hostile(lambda run: f'[alias]\nls-files = "!{run}"\nstatus = "!{run}"\nconfig = "!{run}"\n'),
    "pager": hostile(
        lambda run: f'[core]\npager = "{run}"\neditor = "{run}"\n[pager]\nls-files = "{run}"\nstatus = true\n'
    ),
    "ssh": hostile(lambda run: f'[core]\nsshCommand = "{run}"\nalternateRefsCommand = "{run}"\naskPass = "{run}"\n'),
    "credentials": hostile(lambda run: f'[credential]\nhelper = "!{run}"\n[gpg]\nprogram = "{run}"\n'),
    "external": hostile(lambda run: f'[diff]\nexternal = "{run}"\n[submodule]\nrecurse = true\n'),
    "hooks": with_hooks,
    "filters": with_attributes,
    "partial clone": as_partial_clone,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_that_a_repository_names_is_executed(tmp_path: Path, name: str) -> None:
    folder, mark = write_files(tmp_path / "mine", {"main.py": "x"}), tmp_path / "mark"
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "x")
    HOSTILE[name](folder, mark)
    assert "main.py" in agent_files(folder).names
    commit_of(folder)
    assert not mark.exists()


def test_the_attacks_would_work_without_the_settings(tmp_path: Path) -> None:
    for name in ("fsmonitor", "filters"):
        folder, mark = write_files(tmp_path / name, {"main.py": "x"}), tmp_path / f"mark-{name}"
        git(folder, "init", "-q")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "x")
        HOSTILE[name](folder, mark)
        subprocess.run(["git", "-C", str(folder), "status"], capture_output=True, check=False)
        assert mark.exists(), name


def test_modules_of_a_repository_are_not_entered_for_its_commit(tmp_path: Path) -> None:
    folder, mark = write_files(tmp_path / "mine", {"main.py": "x"}), tmp_path / "mark"
    inner = write_files(folder / "tool", {"x.py": "x"})
    for place in (inner, folder):
        git(place, "init", "-q")
        git(place, "add", ".")
        git(place, "commit", "-qm", "x")
    HOSTILE["fsmonitor"](inner, mark)
    assert commit_of(folder)[0]
    assert agent_files(folder).names == ("main.py", "tool/x.py")
    assert not mark.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_the_folder_may_be_another_users(folder: Path) -> None:
    git(folder, "init", "-q")
    write_files(folder, {".gitignore": "big.bin\n", "big.bin": ""})
    for path in (folder, folder / ".git"):
        os.chown(path, 61_234, 61_234)
    assert "big.bin" not in agent_files(folder).names


def test_a_repository_that_git_cannot_read_is_one_line(folder: Path) -> None:
    """What git would ignore is not known then."""
    git(folder, "init", "-q")
    (folder / ".git" / "config").write_text("[core\n")
    with pytest.raises(UserError, match="git cannot list its files: fatal: bad config line 1"):
        agent_files(folder)


def test_settings_that_point_elsewhere_lead_nowhere(tmp_path: Path) -> None:
    outside = write_files(tmp_path / "outside", {"secret.txt": "s"})
    folder = write_files(tmp_path / "mine", {"main.py": ""})
    git(folder, "init", "-q")
    git(folder, "config", "core.worktree", str(outside))
    assert agent_files(folder).names == ()


def test_too_much_is_one_line(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "mine", {"main.py": ""})
    with (folder / "hole").open("wb") as file:
        file.truncate(5 << 30)
    with pytest.raises(UserError, match="more than 100,000 files or 4 GiB"):
        agent_files(folder)


def test_an_agent_is_staged_with_what_it_shares(tmp_path: Path) -> None:
    write_files(tmp_path / "_shared", {"chat/x.py": "x = 1", "chat/.env": "KEY=1"})
    agent = make_agent(tmp_path, "pass", shared=["../_shared/chat"])
    write_files(agent.folder, {".env": "KEY=1", "cassettes/a.yaml": "answers", "run.sh": "exit"})
    (agent.folder / "run.sh").chmod(0o4775)
    digest = agent.digest
    agent.stage(tmp_path / "place")
    found = {str(path.relative_to(tmp_path / "place")) for path in (tmp_path / "place").rglob("*") if path.is_file()}
    assert found == {"agent/agent.yaml", "agent/main.py", "agent/run.sh", "_shared/chat/x.py"}
    modes = [(tmp_path / "place" / "agent" / name).stat().st_mode & 0o7777 for name in ("main.py", "run.sh")]
    assert modes == [0o444, 0o555]
    assert (agent.staged(tmp_path / "place") / "../_shared/chat/x.py").resolve().is_file()
    assert agent.digest_staged(tmp_path / "place") == digest
    write_files(agent.folder, {"cassettes/a.yaml": "other answers"})
    assert agent.digest_staged(tmp_path / "place") != digest, "what it is answered belongs to its version"


@pytest.mark.parametrize("name", ["../other.txt", "/etc/passwd", "link.txt"])
def test_requirements_outside_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    write_files(tmp_path, {"other.txt": "x", "tester/x": ""})
    (tmp_path / "tester" / "link.txt").symlink_to("../other.txt")
    with pytest.raises(UserError, match=r"field `environment.requirements`: '.*' is outside the agent's folder"):
        make_agent(tmp_path, "pass", environment={"requirements": name})
