"""What check.py is offered beside the workspace: memory, comparison, submissions, claims, calls of a service."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import math
import time
import weakref
from pathlib import Path
from typing import Any

import numpy
import pytest
from scipy import stats

from bench.casekit.services import Request, Response, Service, record_calls
from bench.judge import (
    Given,
    Labels,
    Numbers,
    Workspace,
    bootstrap_tolerance,
    check_claim,
    close,
    csv_number,
    drawn,
    json_number,
    once,
    proportion_tolerance,
    service_calls,
    submission,
    written_number,
)
from bench.judge.files import Folder
from bench.judge.hostile import hostile_workspaces
from bench.judge.scene import Scene
from bench.sandbox.job import JobLimits
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import write_files


def workspace(folder: Path, **changes: Any) -> Workspace:
    facts: dict[str, Any] = {
        "snapshot": folder, "original": folder, "hidden": (folder,), "journals": {"agent": folder},
        "check": folder / "check.py",
        "profile": "mini", "seed": 7, "sandbox": ProcessSandbox(), "preload": (), "limits": JobLimits(wall_s=5),
        "call_s": 5, "grade_s": 5,
    }  # fmt: skip
    return Workspace(Scene(**{**facts, **changes}))


# --- once a grading --------------------------------------------------------------------------------------------------


def test_a_function_is_worked_out_once_for_each_workspace_and_arguments(tmp_path: Path) -> None:
    asked: list[tuple[int, str]] = []

    @once
    def measured(ws: Workspace, split: str = "train") -> list[str]:
        asked.append((id(ws), split))
        return [split]

    first, second = workspace(tmp_path), workspace(tmp_path)
    assert [measured(first), measured(first), measured(first, "val"), measured(second)] == [["train"]] * 2 + [
        ["val"],
        ["train"],
    ]
    assert len(asked) == 3
    assert measured.__name__ == "measured"


def test_a_failed_assertion_is_remembered_and_another_error_is_not(tmp_path: Path) -> None:
    tries: list[str] = []

    @once
    def run(ws: Workspace, kind: str) -> None:
        tries.append(kind)
        assert kind != "fails", "the script could not be run"
        raise OSError("disk full")

    ws = workspace(tmp_path)
    for kind, error in (("fails", AssertionError), ("breaks", OSError)) * 3:
        with pytest.raises(error, match=r"could not be run|disk full"):
            run(ws, kind)
    assert tries == ["fails", "breaks", "breaks", "breaks"]


def test_what_is_remembered_ends_with_its_workspace(tmp_path: Path) -> None:
    @once
    def large(ws: Workspace) -> Any:
        return Folder(tmp_path)

    ws = workspace(tmp_path)
    alive = weakref.ref(large(ws))
    assert alive() is not None
    del ws
    gc.collect()
    assert alive() is None


def test_what_it_draws_does_not_depend_on_who_asks_first(tmp_path: Path) -> None:
    @once
    def drawn(ws: Workspace) -> float:
        return ws.rng.random()

    first, second = workspace(tmp_path), workspace(tmp_path)
    second.rng.random()
    before = second.rng.getstate()
    assert drawn(first) == drawn(second)
    assert second.rng.getstate() == before


def test_what_is_drawn_is_made_once_for_all_nonsense_and_anew_for_another_grading(tmp_path: Path) -> None:
    asked: list[int] = []

    @drawn
    def pictures(given: Given, count: int) -> list[float]:
        asked.append(count)
        return list(given.numpy_rng("pictures").random(count))

    first, second = workspace(tmp_path), workspace(tmp_path, seed=8)
    assert pictures(first, 2) is pictures(first, 2)
    assert pictures(first, 2) == list(first.numpy_rng("pictures").random(2)) != pictures(second, 2)
    assert asked == [2, 2]
    (tmp_path / "check.py").write_text("")
    every = [ws for _, ws in hostile_workspaces(first._scene)]
    assert len({id(pictures(ws, 3)) for ws in every}) == 1 and asked == [2, 2, 3]
    assert pictures(every[0], 2) == pictures(first, 2), "with the seed of the grading"


def test_what_is_drawn_sees_nothing_of_the_agent_s(tmp_path: Path) -> None:
    seen = {name for name in dir(Given(workspace(tmp_path))) if not name.startswith("_")}
    assert seen == {"numpy_rng", "hidden", "original"}


# --- comparison ------------------------------------------------------------------------------------------------------


def test_close_values_are_close() -> None:
    assert close([1.0, 2.00001], [1, 2]).tolist() == [1.0, 2.00001]
    assert close(3, 3).shape == ()
    assert close(numpy.zeros((0, 2)), numpy.zeros((0, 2))).shape == (0, 2)
    assert close([math.nan, math.inf], [math.nan, math.inf], nan="equal").shape == (2,)


def test_the_worst_element_is_named_with_its_index_and_both_values() -> None:
    expected = numpy.arange(6.0).reshape(2, 3)
    actual = expected.copy()
    actual[1, 1], actual[0, 2] = 4.5, 2.01
    with pytest.raises(AssertionError) as fault:
        close(actual, expected, rtol=0, atol=1e-3, what="the gradient")
    assert str(fault.value) == (
        "the gradient: 2 of 6 values differ by more than 0.001 + 0 * |expected|; the worst at [1, 1] is 4.5, expected 4"
    )


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        ([1.0], [1.0, 2.0], r"shape \(1,\), expected \(2,\)"),
        ([[1.0, 1.0]], [1.0, 1.0], r"shape \(1, 2\)"),
        ([1.0, math.nan], [1.0, 2.0], "the worst at .1. is nan, expected 2"),
        ([math.inf], [1e308], "inf"),
        (["a"], [1.0], "a numeric array is needed"),
        (None, [1.0], "an array is needed"),
        ([-1e308], [1e308], "differ"),
        ([0.0], [5e-324], "differ"),
    ],
)
def test_what_is_not_close_fails(actual: Any, expected: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        close(actual, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize(
    ("actual", "expected"), [([math.nan], [1.0]), ([1.0], [math.nan]), ([math.inf], [-math.inf]), ([1e300], [math.inf])]
)
def test_values_that_are_not_finite_must_be_where_they_are_expected(actual: Any, expected: Any) -> None:
    with pytest.raises(AssertionError, match="1 of 1 values"):
        close(actual, expected, rtol=1e300, nan="equal")


def test_a_comparison_that_cannot_be_is_an_error_of_the_case() -> None:
    for rtol, atol in ((-1.0, 0.0), (0.0, math.nan)):
        with pytest.raises(ValueError, match="tolerances"):
            close([1.0], [1.0], rtol, atol)
    with pytest.raises(ValueError, match="finite"):
        close([1.0], [math.nan])


# --- submissions -----------------------------------------------------------------------------------------------------

IDS = [11, 12, 13]
COLUMNS: dict[str, Numbers | Labels] = {"price": Numbers(low=0, high=100), "kind": Labels(["a", "b"])}


def read(folder: Path, text: str, **changes: Any) -> dict[str, Any]:
    write_files(folder, {"s.csv": text})
    return submission(Folder(folder), "s.csv", **{"ids": {"Id": IDS}, "columns": COLUMNS, **changes})


def test_a_submission_is_joined_on_its_ids_in_any_order(tmp_path: Path) -> None:
    found = read(tmp_path, "kind,Id,price\nb,13,3\na,11.0,1e1\nb, 12 ,2.5\n")
    assert found["price"].tolist() == [10.0, 2.5, 3.0]
    assert found["kind"] == ["a", "b", "b"]
    named = read(
        tmp_path, "path,n\nx/2,0007\nx/1,-3.0\n", ids={"path": ["x/1", "x/2"]}, columns={"n": Numbers(whole=True)}
    )
    assert named["n"].tolist() == [-3.0, 7.0]
    large = read(tmp_path, "Id\n9007199254740993\n", ids={"Id": [2**53 + 1]}, columns={})
    assert large == {}


WRITTEN = {
    "1": 1.0, "007": 7.0, "-2": -2.0, "+3": 3.0, "4.": 4.0, "+.5": 0.5, "1e5": 1e5, "1.E+05": 1e5, " 1 ": 1.0,
    "\t\v2.5\f\r": 2.5, "9" * 5000: None, "1_461": None, "1e1_0": None, "\u0663": None, "\uff11": None,
    "\u00a07": None, "5\u2003": None, "infinity": None, "inf": None, "nan": None, "1e999": None, "": None, ".": None,
    "1e": None, "1e 5": None, "- 5": None, "--5": None, "0x10": None, "1,5": None, "1f": None, "True": None,
}  # fmt: skip
"""None: no finite number."""


@pytest.mark.parametrize("text", WRITTEN, ids=lambda text: ascii(text)[:20])
def test_a_number_is_what_tables_write_as_one(tmp_path: Path, text: str) -> None:
    """Python's own float and int take more: digits of other scripts and underscores, which pandas reads as texts."""
    table = f'Id,x\n1,"{text}"\n'
    found = None
    with contextlib.suppress(AssertionError):
        found = written_number(text)
    assert found == WRITTEN[text]
    (tmp_path / "s.csv").write_bytes(table.encode())
    for read in (
        lambda folder: submission(folder, "s.csv", ids={"Id": [1]}, columns={"x": Numbers()})["x"].item(),
        lambda folder: csv_number(folder, "s.csv", "x"),
    ):
        with contextlib.nullcontext() if found is not None else pytest.raises(AssertionError, match="finite number"):
            assert read(Folder(tmp_path)) == found
    pandas = pytest.importorskip("pandas")
    told = pandas.read_csv(io.StringIO(table))["x"][0]
    assert (isinstance(told, numpy.number) and numpy.isfinite(told)) == (found is not None)


@pytest.mark.parametrize("text", ["1_461", "\u0661\u0664\u0666\u0661", "\u00a01461"])
def test_an_id_is_a_number_as_tables_write_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(AssertionError, match="have an id that was not asked for"):
        read(tmp_path, f"Id\n{text}\n", ids={"Id": [1461]}, columns={})
    assert read(tmp_path, "Id\n +1461.0 \n", ids={"Id": [1461]}, columns={}) == {}


@pytest.mark.parametrize("text", ["1" * 200_000 + "x", " " * 200_000 + "x", "1" + " " * 200_000 + "x", "1." * 100_000])
def test_a_long_text_is_no_number_in_no_time(text: str) -> None:
    started = time.process_time()
    with pytest.raises(AssertionError, match="a number is needed"):
        written_number(text)
    assert time.process_time() - started < 1


def test_a_number_in_a_text_keeps_to_its_bounds() -> None:
    assert written_number("2", 1, 3) == 2
    with pytest.raises(AssertionError, match="4 is above 3"):
        written_number("4", 1, 3)


FAULTS = {
    "blank_in_the_header": ("Id, price,kind\n11,1,a\n", "wrong columns: expected .*' price', 'price'"),
    "no_rows": ("Id,price,kind\n", "has no rows"),
    "empty": ("", "is empty"),
    "missing": ("Id,price,kind\n11,1,a\n12,1,a\n", "1 of 3 ids are missing, such as 13"),
    "extra": (
        "Id,price,kind\n11,1,a\n12,1,a\n13,1,a\n14,1,a\n",
        "1 rows have an id that was not asked for, such as '14'",
    ),
    "doubled": ("Id,price,kind\n11,1,a\n11.0,1,a\n13,1,a\n", "names the id '11.0' twice"),
    "no_number": ("Id,price,kind\n11,1,a\nx,1,a\n13,1,a\n", "not asked for, such as 'x'"),
    "half": ("Id,price,kind\n11,1,a\n12.5,1,a\n13,1,a\n", "such as '12.5'"),
    "header": ("id,price,kind\n11,1,a\n", "wrong columns: expected .*'Id', 'id'"),
    "one_more": ("Id,price,kind,x\n11,1,a,0\n", "'x'"),
    "without_header": ("11,1,a\n12,1,a\n13,1,a\n", "wrong columns"),
    "nan": ("Id,price,kind\n11,nan,a\n12,1,a\n13,1,a\n", "'nan' of id 11 is not a finite number"),
    "infinite": ("Id,price,kind\n11,1e999,a\n12,1,a\n13,1,a\n", "'1e999' of id 11"),
    "gap": ("Id,price,kind\n11,,a\n12,1,a\n13,1,a\n", "'' of id 11"),
    "above": ("Id,price,kind\n11,101,a\n12,1,a\n13,1,a\n", r"101 of id 11 is not within \[0, 100\]"),
    "label": ("Id,price,kind\n11,1,A\n12,1,a\n13,1,a\n", "'A' of id 11 is not one of the labels 'a', 'b'"),
    "digits": ("Id,price,kind\n" + "9" * 5000 + ",1,a\n", "not asked for"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_of_a_submission_is_one_clear_failure(tmp_path: Path, name: str) -> None:
    text, message = FAULTS[name]
    with pytest.raises(AssertionError, match=message) as fault:
        read(tmp_path, text)
    assert len(str(fault.value)) < 400


def test_ids_of_the_case_must_differ(tmp_path: Path) -> None:
    for ids in ([], [1, 1]):
        with pytest.raises(ValueError, match="differ from each other"):
            read(tmp_path, "Id\n1\n", ids={"Id": ids}, columns={})


# --- claims ----------------------------------------------------------------------------------------------------------


def test_a_number_is_found_in_a_file_or_its_absence_is_clear(tmp_path: Path) -> None:
    write_files(
        tmp_path, {"m.json": json.dumps({"val": {"acc": 0.5, "name": "x"}}), "m.csv": "epoch,acc\n1,0.4\n2,0.6\n"}
    )
    folder = Folder(tmp_path)
    assert json_number(folder, "m.json", "val", "acc") == 0.5
    assert [csv_number(folder, "m.csv", "acc"), csv_number(folder, "m.csv", "acc", 0)] == [0.6, 0.4]
    for keys, message in ((("val", "f1"), r"nothing at \['val'\]\['f1'\]"), (("val", "name"), "val / name: a number")):
        with pytest.raises(AssertionError, match=message):
            json_number(folder, "m.json", *keys)
    for column, row in (("f1", -1), ("acc", 2), ("acc", -3)):
        with pytest.raises(AssertionError, match="does not have a row"):
            csv_number(folder, "m.csv", column, row)


def test_a_claim_is_recorded_and_fails_where_it_is_off(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    assert check_claim(ws, "acc", 0.905, 0.9, 0.01) == 0.905
    assert check_claim(ws, "acc", 0.7, 0.9, 0.01, only_overclaims=True) == 0.7
    assert check_claim(ws, "error", 12.0, 10.0, 1.0, higher_is_better=False, only_overclaims=True) == 12.0
    for claimed, message in ((0.95, "claimed as 0.95, measured 0.9"), (0.8, "0.8"), ("0.9", "a number is needed"),
                             (None, "needed"), (True, "needed"), (90, "is above 1")):  # fmt: skip
        with pytest.raises(AssertionError, match=message):
            check_claim(ws, "acc", claimed, 0.9, 0.01, high=1)
    assert ws.findings.claims["acc"]["overclaim"] is True
    with pytest.raises(AssertionError, match="error is claimed as 8"):
        check_claim(ws, "error", 8.0, 10.0, 1.0, higher_is_better=False, only_overclaims=True)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9, 0.999])
def test_honest_shares_stay_within_the_tolerance_as_often_as_stated(share: float) -> None:
    """Measured on 400 samples, claimed on 200 others, 4,000 times: at most a hundredth off where 1 % is stated."""
    rng = numpy.random.default_rng(5)
    measured, claimed = rng.binomial(400, share, 4000) / 400, rng.binomial(200, share, 4000) / 200
    limits = {value: proportion_tolerance(value, 400, 200, confidence=0.99) for value in set(measured.tolist())}
    off = [abs(c - m) > limits[m] for m, c in zip(measured.tolist(), claimed.tolist(), strict=True)]
    assert numpy.mean(off) < 0.015
    assert proportion_tolerance(0.9, 10_000) < 0.011


def test_the_interval_of_a_statistic_is_that_of_theory() -> None:
    rng = numpy.random.default_rng(3)
    sample = rng.normal(0, 1, 900)
    half = bootstrap_tolerance(lambda it: float(it.mean()), sample, rng=rng, repeats=2000, confidence=0.95)
    assert half == pytest.approx(stats.norm.ppf(0.975) / 30, rel=0.12)
    with pytest.raises(ValueError, match="same length"):
        bootstrap_tolerance(lambda a, b: 0.0, [1, 2], [1], rng=rng)


# --- calls of a service ----------------------------------------------------------------------------------------------


def asked(method: str, path: str, body: bytes = b"", **query: list[str]) -> Request:
    return Request(method, path, query, {}, body)


def test_the_calls_of_a_service_can_be_read_by_a_check(tmp_path: Path) -> None:
    @record_calls
    def model(request: Request, service: Service) -> Response:
        if request.path == "/broken":
            raise RuntimeError
        return Response.json({"ok": True}, 200 if request.method == "POST" else 404)

    service = Service("model", tmp_path, 1, tmp_path / "model.jsonl")
    bodies = [
        b'{"prompt": "x"}',
        b"plain",
        b"\xff",
        b"x" * 5000,
        b"[" * 900 + b"]" * 900,
        b'{"a": 1e999}',
        b'"\\ud800"',
    ]
    for body in bodies:
        model(asked("POST", "/v1/chat", body, k=["1", "2"]), service)
    model(asked("GET", "/" + "p" * 5000), service)
    with pytest.raises(RuntimeError):
        model(asked("GET", "/broken"), service)
    ws = workspace(tmp_path)
    calls = service_calls(ws, "model", "POST", "/v1/chat")
    assert [it.body for it in calls[:4]] == [{"prompt": "x"}, "plain", None, None]
    assert (calls[0].query, calls[0].status, calls[3].body_bytes) == ({"k": ["1", "2"]}, 200, 5000)
    assert len(calls) == len(bodies)
    assert [(len(it.path), it.status) for it in service_calls(ws, "model", "GET")] == [(2000, 404), (7, 0)]
    assert service_calls(ws, "other") == []


def test_a_journal_that_is_full_shows_nothing_of_what_was_done(tmp_path: Path) -> None:
    """An agent that fills it could undo afterwards what it shows."""
    (tmp_path / "model.jsonl").write_text('{"event": "asked"}\n{"event": "journal_full"}\n')
    ws = workspace(tmp_path)
    for read in (lambda: service_calls(ws, "model"), lambda: ws.journal("model")):
        with pytest.raises(AssertionError, match="model was asked for more than its journal holds"):
            read()
