"""A change of the judge's sources needs a decision: another version, or the word that verdicts stay the same."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.authoring.judge_sources import declare, declared, source_files, sources_digest
from bench.formats.judge_version import JUDGE, SOURCES
from tests.helpers.cells import ROOT


def test_the_sources_are_those_that_were_decided_upon() -> None:
    remedy = "run `python -m scripts.judge_version --confirm` where no verdict can change, or --raise where one may"
    assert (declared()[0], sources_digest()) == (JUDGE, SOURCES), remedy


def test_the_sources_are_all_that_decides() -> None:
    names = set(source_files())
    assert {
        "judge/process.py",
        "guest/subject.py",
        "casekit/data.py",
        "formats/verdict.py",
        "sandbox/limits.py",
    } <= names
    assert all((ROOT / "bench" / name).is_file() for name in names)


def test_a_decision_is_written_down(tmp_path: Path) -> None:
    package = tmp_path / "bench"
    for name in [*source_files(), "formats/judge_version.py"]:
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "bench" / name, package / name)
    before = declared(package)
    (package / "judge" / "process.py").write_text("other\n")
    changed = sources_digest(package)
    assert changed != before[1]
    assert declare(other_verdicts=False, package=package) == declared(package) == (before[0], changed)
    assert declare(other_verdicts=True, package=package) == (str(int(before[0]) + 1), changed)
    assert sources_digest(package) == changed, "the declaration is not one of the sources"
