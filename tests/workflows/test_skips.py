"""Skipped tests are counted and named at the end of a run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.helpers.cells import ROOT, python, write_files
from tests.helpers.sampling import at_night

_CONFTEST = """
from tests.helpers.skips import summarize


def pytest_terminal_summary(terminalreporter):
    summarize(terminalreporter)
"""
_TESTS = """
import pytest

from tests.helpers.cells import not_here


@pytest.mark.parametrize("n", range(3))
def test_browser(n):
    not_here("chromium: is not installed")


@pytest.mark.skipif(True, reason="root: run these tests as root, too")
def test_root():
    pass


def test_here():
    pass
"""


def run_tests(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    write_files(folder, {"conftest.py": _CONFTEST, "test_it.py": _TESTS, "pytest.ini": "[pytest]\n"})
    env = {name: value for name, value in os.environ.items() if name not in ("CI", "MLDB_SKIPPED")}
    env |= {"PYTHONPATH": str(ROOT), **variables}
    command = python("-m", "pytest", "-p", "no:cacheprovider", *options, str(folder))
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("options", [(), at_night(("--numprocesses", "2"))], ids=["alone", "workers"])
def test_skips_are_counted_by_what_was_missing(options: tuple[str, ...], tmp_path: Path) -> None:
    listed = tmp_path / "skipped"
    done = run_tests(tmp_path, *options, MLDB_SKIPPED=str(listed))
    assert done.returncode == 0, done.stdout
    for line in (
        "= 4 of 5 tests skipped =",
        "    3 chromium: is not installed",
        "    1 root: run these tests as root, too",
    ):
        assert line in done.stdout
    assert listed.read_text().splitlines() == [
        "4 of 5 tests skipped",
        "    3 chromium: is not installed",
        "    1 root: run these tests as root, too",
    ]


def test_the_parts_of_make_test_share_a_file(tmp_path: Path) -> None:
    listed = tmp_path / "skipped"
    for marks in ("not slow", "not fast"):
        run_tests(tmp_path, "-m", marks, MLDB_SKIPPED=str(listed))
    titles = [line for line in listed.read_text().splitlines() if not line.startswith(" ")]
    assert titles == ['4 of 5 tests skipped ("not slow")', '4 of 5 tests skipped ("not fast")']


def test_nothing_is_said_where_nothing_was_skipped(tmp_path: Path) -> None:
    listed = tmp_path / "skipped"
    done = run_tests(tmp_path, "-k", "test_here", MLDB_SKIPPED=str(listed))
    assert "skipped" not in done.stdout
    assert not listed.exists()


def test_in_continuous_integration_a_missing_program_is_a_failure(tmp_path: Path) -> None:
    done = run_tests(tmp_path, CI="true")
    assert done.returncode == 1
    assert "CI must offer what is missing: chromium: is not installed" in done.stdout
    assert "1 of 5 tests skipped" in done.stdout
