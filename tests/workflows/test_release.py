"""The commit of a release, made by real git from a small repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.release import ReleaseError, check, make_commit, pin, record, references, verify
from tests.helpers.cells import write_files
from tests.workflows.rehearsal.stage import ROOT, git

MATRIX = """\
jobs:
  a:
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
      - uses: ml-dev-bench/action/.github/actions/plan@v1
      - uses: ml-dev-bench/action@v1
      - run: echo ml-dev-bench/action@v1
"""


@pytest.fixture
def main(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    files = {
        "bench/__init__.py": '__version__ = "1.2.3"\n',
        "CHANGELOG.md": "# Changelog\n\n## 1.2.3\n",
        "README.md": "uses: ml-dev-bench/action@v1\n",
        "action.yml": "name: x\n",
        ".github/workflows/matrix.yml": MATRIX,
        "caller/mldb-agent.yml": "id: x\n",
    }
    write_files(tmp_path, files)
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message=All")
    return tmp_path


def test_the_release_pins_its_siblings_to_the_commit_of_main_and_changes_nothing_else(main: Path) -> None:
    check(main, "1.2.3")
    commit = make_commit(main, "1.2.3")
    parent = git(main, "rev-parse", "HEAD")
    assert git(main, "rev-parse", f"{commit}^") == parent
    assert references(main, commit) == {".github/workflows/matrix.yml": [f"{parent} # v1.2.3"] * 2}
    assert git(main, "diff", "--name-only", parent, commit) == ".github/workflows/matrix.yml"
    assert "echo ml-dev-bench/action@v1" in git(main, "show", f"{commit}:.github/workflows/matrix.yml")
    assert make_commit(main, "1.2.3") == commit, "every job makes the same one"
    assert git(main, "status", "--porcelain") == "", "the work tree and the index are left alone"
    assert json.loads(record(main, "1.2.3", commit).read_text()) == {"version": "1.2.3", "commit": commit}


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("bench/__init__.py", '__version__ = "1.2.4"\n', "does not say 1.2.3"),
        ("CHANGELOG.md", "# Changelog\n\n## 1.2.30\n", "no section 1.2.3"),
        ("action.yml", "    uses: ml-dev-bench/action/x@main\n", "on main it is @v1"),
        (".github/actions/x/action.yml", f"    uses: ml-dev-bench/action@{'a' * 40} # v1.0.0\n", "on main it is @v1"),
    ],
)
def test_what_is_not_ready_is_refused_in_one_line(main: Path, file: str, text: str, said: str) -> None:
    write_files(main, {file: text})
    git(main, "add", "--all")
    git(main, "commit", "--quiet", "--message=Change")
    with pytest.raises(ReleaseError, match=said):
        check(main, "1.2.3")


def test_a_version_is_released_once(main: Path) -> None:
    git(main, "tag", "v1.2.3")
    with pytest.raises(ReleaseError, match="exists already"):
        check(main, "1.2.3")
    with pytest.raises(ReleaseError, match="is not a version"):
        check(main, "1.2")


def test_v1_never_goes_back(main: Path) -> None:
    """The jobs of an older release that failed can be started again: callers of v1 would get what was mended since."""
    git(main, "tag", "v1", make_commit(main, "1.2.3"))
    check(main, "1.2.3")
    write_files(main, {"README.md": "newer\n"})
    git(main, "add", "--all")
    git(main, "commit", "--quiet", "--message=Newer")
    check(main, "1.2.3")
    git(main, "tag", "--force", "v1", make_commit(main, "1.2.3"))
    git(main, "reset", "--quiet", "--hard", "HEAD^")
    with pytest.raises(ReleaseError, match="v1 is the release of a commit that is not below HEAD"):
        check(main, "1.2.3")


def test_a_commit_with_another_pin_or_with_more_is_not_the_release(main: Path) -> None:
    commit = make_commit(main, "1.2.3")
    for file, text in (("README.md", "more\n"), (".github/workflows/matrix.yml", pin(MATRIX, f"{'b' * 40} # v1.2.3"))):
        git(main, "checkout", "--quiet", "--detach", commit)
        write_files(main, {file: text})
        git(main, "add", "--all")
        git(main, "commit", "--quiet", "--amend", "--no-edit")
        with pytest.raises(ReleaseError, match=r"differs|pins a sibling"):
            verify(main, "1.2.3", git(main, "rev-parse", "HEAD"))


def test_on_this_branch_every_reference_to_ourselves_is_v1() -> None:
    found = references(ROOT, "HEAD")
    assert all(ref == "v1" for refs in found.values() for ref in refs), found
