"""The index knows the arm of a record and the design of its looks, so that `compare` answers from a branch alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.cli.main import cli
from bench.formats.record import Record
from bench.index.line import parse_line
from bench.index.nights import nightly_points
from bench.index.query import open_index
from bench.stats import MEASURES, case_nights, make_sequential, nightly
from bench.store import Bundle, ResultsBranch
from tests.helpers.records import START, make_check, make_provenance, make_record

DESIGN = make_sequential(12, 2)


def make_arm(arm: str, fails: int, *, sequential: bool) -> list[Record]:
    provenance = make_provenance("ab").model_copy(update={"sequential": DESIGN if sequential else None})
    return [
        make_record(
            agent="mine",
            case=f"case-{case:02}",
            cell=f"mine/x/case-{case:02}/mini/1/{arm}",
            arm=arm,
            agent_version=1 if arm == "base" else 2,
            checks=[make_check(value=float(case >= fails))],
            provenance=provenance,
        )
        for case in range(12)
    ]


@pytest.mark.parametrize("sequential", [True, False])
def test_arms_of_a_stored_run_are_compared_and_looks_are_worked_out_again(tmp_path: Path, sequential: bool) -> None:
    records = [*make_arm("base", 0, sequential=sequential), *make_arm("head", 12, sequential=sequential)]
    repository = str(tmp_path / "results.git")
    branch = ResultsBranch(repository, "mldb-results")
    branch.ensure()
    branch.commit(Bundle("ab", 1, records, START))
    asked = ["--results", repository]
    done = CliRunner().invoke(cli, ["compare", "run:ab", *asked])
    assert done.exit_code == 1, done.output
    assert "REGRESSION" in done.output
    assert ("look 1:" in done.output) == sequential
    done = CliRunner().invoke(cli, ["compare", "ab:base", "ab:head", "--json", *asked])
    document = json.loads(done.output[done.output.index("{") :])
    assert document["verdict"] == "regression"
    assert ("sequential" in document) == sequential
    mixed = CliRunner().invoke(cli, ["compare", "ab", "ab", *asked])
    assert "holds two arms" in str(mixed.exception)
    shown = CliRunner().invoke(cli, ["results", "show", repository, "--arm", "head", "--cells"])
    assert shown.output.count("mine (head) on") == 12


def test_a_line_whose_arm_is_not_its_cells_is_no_record() -> None:
    [record, *_] = make_arm("base", 0, sequential=True)
    assert parse_line(record.to_line().encode()) is not None
    assert parse_line(record.to_line().replace('"arm":"base"', '"arm":"head"').encode()) is None


@pytest.mark.parametrize(("versions", "mean", "trials"), [((1, 2), 0.0, 12), ((1, 1), 0.5, 24)])
def test_a_night_of_two_versions_is_a_point_of_head_alone_and_of_one_version_of_both(
    tmp_path: Path, versions: tuple[int, int], mean: float, trials: int
) -> None:
    base, head = make_arm("base", 0, sequential=False), make_arm("head", 12, sequential=False)
    records = [
        record.model_copy(update={"agent": (base if version == 1 else head)[0].agent})
        for arm, version in ((base, versions[0]), (head, versions[1]))
        for record in arm
    ]
    (found,) = nightly(case_nights(records, MEASURES["success"]))
    assert [(it.value, it.trials) for it in found.nights] == [(mean, trials)], (
        "half of a drop is what a mean would show"
    )
    repository = str(tmp_path / "results.git")
    branch = ResultsBranch(repository, "mldb-results")
    branch.ensure()
    branch.commit(Bundle("ab", 1, records, START))
    with open_index(repository, cache=tmp_path / "cache") as index:
        (indexed,) = nightly(nightly_points(index, "success"))
    assert [(it.value, it.trials) for it in indexed.nights] == [(mean, trials)]
