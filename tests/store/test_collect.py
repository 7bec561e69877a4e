"""`results collect`: what a thousand strangers left is read, held against the plan, and only what agrees is stored."""

from __future__ import annotations

import json
import random
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.base.errors import UserError
from bench.base.times import now
from bench.formats.plan import Expected, PlanFile, slug_of
from bench.formats.record import Record
from bench.formats.shards import Shard, ShardPart
from bench.store.artifacts import Artifact, Caps, find_artifacts
from bench.store.branch import ResultsBranch
from bench.store.bundle import Bundle, provenance_of, render
from bench.store.collect import Collected, PlanCheck, Shards, collect_bundle
from bench.store.merge import Taken, fitting, measurement_of
from bench.store.pending import digests_of_pending, load_pending, save_pending
from tests.helpers.hostile import (
    FORGERIES,
    SHAPES,
    Night,
    document,
    make_planned_night,
    mutated,
    planned_cell,
    write_artifact,
)
from tests.helpers.store import BRANCH, HASTY, WAYS, git, make_bare, mldb, open_target, tip_of


@pytest.fixture
def night() -> Night:
    return make_planned_night()


def merge(night: Night, *folders: Path, caps: Caps | None = None, shards: bool = True) -> Collected:
    admission = night.check(shards=shards)
    artifacts, refused = find_artifacts(folders, caps or Caps())
    collected = collect_bundle(artifacts, admission, caps or Caps())
    return replace(collected, refused=[*refused, *collected.refused])


def cells_of(collected: Collected) -> list[str]:
    return [item.record.cell for item in collected.taken]


def lines_of(collected: Collected) -> list[str]:
    return [str(refusal) for refusal in collected.refused]


def assert_harmless(lines: Sequence[str]) -> None:
    for line in lines:
        assert line.isprintable(), line
        assert "::" not in line
        assert "##[" not in line
        assert len(line) < 700


def test_artifacts_of_all_jobs_become_one_bundle(night: Night, tmp_path: Path) -> None:
    night.lay_out(tmp_path)
    (tmp_path / f"mldb-{night.plan.run}-shard-0" / "cells" / "x.try1.json").write_text("an earlier try")
    collected = merge(night, tmp_path)
    assert cells_of(collected) == night.cells
    assert (collected.refused, collected.missing, collected.untold) == ([], [], 0)
    records = {record.cell: record for found in night.records.values() for record in found}
    assert {item.record.cell: item.record for item in collected.taken} == records


def test_one_run_folder_is_one_artifact(night: Night, tmp_path: Path) -> None:
    night.lay_out(tmp_path)
    folders = sorted(tmp_path.iterdir())
    assert cells_of(merge(night, *folders)) == night.cells
    (tmp_path / "stray.zip").write_bytes(b"PK")
    (tmp_path / "link").symlink_to(folders[0])
    collected = merge(night, tmp_path, tmp_path / "missing")
    assert cells_of(collected) == night.cells
    assert lines_of(collected) == [
        "link: is a symbolic link, not a folder",
        "stray.zip: is a file, not a folder",
        f"{tmp_path}/missing: cannot be read: No such file or directory",
    ]


def test_an_artifact_named_like_a_part_of_a_run_hides_no_other(night: Night, tmp_path: Path) -> None:
    night.lay_out(tmp_path)
    for name in ("cells", "traces", "run.json"):
        (tmp_path / name / "cells").mkdir(parents=True)
        (tmp_path / name / "x.json").write_text("{}")
    assert cells_of(merge(night, tmp_path)) == night.cells


@pytest.mark.parametrize("what", FORGERIES)
def test_a_forged_record_is_refused_by_name(night: Night, tmp_path: Path, what: str) -> None:
    night.lay_out(tmp_path)
    name, (victim, *_) = next(iter(night.records.items()))
    path = tmp_path / name / "cells" / f"{slug_of(victim.cell)}.json"
    path.write_text(json.dumps(FORGERIES[what](document(victim))))
    collected = merge(night, tmp_path)
    assert cells_of(collected) == [cell for cell in night.cells if cell != victim.cell]
    assert collected.missing == [victim.cell]
    (line,) = lines_of(collected)
    assert line.startswith(f"{name}/cells/{path.name}: ")
    assert_harmless([line])


@pytest.mark.parametrize("what", SHAPES)
def test_a_file_that_is_no_record_is_refused_by_name(night: Night, tmp_path: Path, what: str) -> None:
    night.lay_out(tmp_path)
    hostile = tmp_path / "zz-hostile"
    write_artifact(hostile, night.plan, [])
    SHAPES[what](hostile, "a.json", night.records[f"mldb-{night.plan.run}-shard-0"][0])
    collected = merge(night, tmp_path)
    assert cells_of(collected) == night.cells
    assert collected.refused
    assert all(line.startswith("zz-hostile/") for line in lines_of(collected))
    assert_harmless(lines_of(collected))


def test_a_cell_of_another_job_is_refused_even_when_it_comes_first(night: Night, tmp_path: Path) -> None:
    night.lay_out(tmp_path)
    stolen = night.records[f"mldb-{night.plan.run}-shard-2"][0]
    forged = make_record_like(stolen, steps=1)
    write_artifact(tmp_path / "aa-thief", night.plan, [forged])
    collected = merge(night, tmp_path)
    assert cells_of(collected) == night.cells
    assert stolen in [item.record for item in collected.taken]
    assert lines_of(collected) == [
        f"aa-thief/cells/{slug_of(stolen.cell)}.json: claims the cell {stolen.cell}, which was given to another job"
    ]


def make_record_like(record: Record, **changes: object) -> Record:
    return Record.model_validate_json(json.dumps({**document(record), **changes}))


def test_without_shards_nobody_can_tell_who_lies_and_both_are_named(night: Night, tmp_path: Path) -> None:
    night.lay_out(tmp_path)
    first, second, *_ = night.records[f"mldb-{night.plan.run}-shard-0"]
    write_artifact(
        tmp_path / "aa",
        night.plan,
        [make_record_like(first, machine={**document(first)["machine"], "gpu": "A"}), second],
    )
    collected = merge(night, tmp_path, shards=False)
    assert cells_of(collected) == [cell for cell in night.cells if cell != first.cell]
    assert collected.missing == [first.cell]
    shard = f"mldb-{night.plan.run}-shard-0"
    assert lines_of(collected) == [
        f"aa/cells/{slug_of(first.cell)}.json: 1 other file contains a different record for cell {first.cell}",
        f"{shard}/cells/{slug_of(first.cell)}.json: 1 other file contains a different record for cell {first.cell}",
        f"{shard}/cells/{slug_of(second.cell)}.json: repeats the record in aa/cells/{slug_of(second.cell)}.json",
    ]


def test_links_and_devices_anywhere_in_an_artifact_are_named(night: Night, tmp_path: Path) -> None:
    night.lay_out(tmp_path)
    folder = tmp_path / f"mldb-{night.plan.run}-shard-1"
    (folder / "traces" / "x").mkdir(parents=True)
    (folder / "traces" / "x" / "out").symlink_to("/etc")
    (folder / "deep" / "/".join("d" * 40)).mkdir(parents=True)
    collected = merge(night, tmp_path)
    assert cells_of(collected) == night.cells
    lines = lines_of(collected)
    assert f"{folder.name}/traces/x/out: is a symbolic link" in lines
    assert any("lies deeper than 32 folders" in line for line in lines)


def test_caps_are_each_artifact_s_own_and_lines_are_few(night: Night, tmp_path: Path) -> None:
    night.lay_out(tmp_path)
    for kind in ("many", "bulky", "linked"):
        folder = tmp_path / f"aa-{kind}"
        write_artifact(folder, night.plan, [])
        for number in range(120):
            path = folder / ("cells" if kind != "linked" else ".") / f"{number:03}.json"
            if kind == "linked":
                path.symlink_to("/nowhere")
            else:
                path.write_bytes(b" " * (1 if kind == "many" else 400) + b"{}")
    caps = Caps(cells=130, record_bytes=9000, records_bytes=40_000, entries=100, lines=7)
    collected = merge(night, tmp_path, caps=caps)
    assert cells_of(collected) == night.cells
    assert len(collected.refused) <= 3 * 7 + 4
    assert collected.untold > 100
    tight = merge(night, tmp_path, caps=Caps(cells=100))
    assert cells_of(tight) == night.cells
    assert "aa-many/cells: holds more than 100 files: nothing was taken" in lines_of(tight)
    few = merge(night, tmp_path, caps=Caps(artifacts=2))
    assert f"{tmp_path}: holds more than 2 artifacts: the rest is left out" in lines_of(few)


def test_records_that_would_make_a_file_too_large_go_the_largest_first(night: Night, tmp_path: Path) -> None:
    name, (victim, *_) = next(iter(night.records.items()))
    night.records[name][0] = make_record_like(
        victim, checks=[document(victim)["checks"][0] | {"message": "x" * 50_000}]
    )
    night.lay_out(tmp_path)
    collected = merge(night, tmp_path, caps=Caps(file_bytes=40_000))
    assert cells_of(collected) == [cell for cell in night.cells if cell != victim.cell]
    assert "makes the file of agent aide too large" in lines_of(collected)[0]


def test_provenances_that_would_make_the_manifest_too_large_go_the_largest_first(night: Night, tmp_path: Path) -> None:
    name, (victim, *_) = next(iter(night.records.items()))
    said = document(victim)["provenance"] | {"packages": {f"{number:x}": "" for number in range(2000)}}
    night.records[name][0] = forged = make_record_like(victim, provenance=said)
    night.lay_out(tmp_path)
    collected = merge(night, tmp_path, caps=Caps(manifest_bytes=20_000))
    assert cells_of(collected) == [cell for cell in night.cells if cell != victim.cell]
    assert "makes the manifest too large (30" in lines_of(collected)[0]
    bundle = Bundle(forged.provenance.run, 1, [forged], datetime.now(UTC))
    assert 0 < len(render(bundle).manifest.to_bytes()) - provenance_of(forged)[1] < 2000


def test_what_lies_in_the_manifest_already_fits_also_after_one_that_did_not(night: Night, tmp_path: Path) -> None:
    records = sorted((it for group in night.records.values() for it in group), key=lambda it: it.cell)
    held = []
    for number, record in enumerate(records):
        said = document(record)["provenance"] | {"packages": {"p": str(number % 2)}}
        held.append(Taken(make_record_like(record, provenance=said), Artifact("a", tmp_path), record.cell, 0))
    fit, refused = fitting(held, Caps(manifest_bytes=provenance_of(held[0].record)[1]))
    assert len({provenance_of(it.record) for it in fit}) == 1
    assert len(fit) == len(refused) == len(records) // 2


def thousand(folder: Path, night: Night, seed: int) -> tuple[Night, set[str]]:
    """A thousand hostile artifacts beside those of `night`; returns the plan they are part of, and their names."""
    rng = random.Random(seed)
    good = [record for records in night.records.values() for record in records]
    owned: list[tuple[str, Record]] = []
    names: set[str] = set()
    recipes = [*(("forgery", what) for what in FORGERIES), *(("shape", what) for what in SHAPES)]
    for number in range(1000):
        # On both sides of the good ones in the order of names.
        name = f"{rng.choice(['aa', 'zz'])}-{number:04}"
        names.add(name)
        if number < 450:
            kind, what = recipes[number % len(recipes)]
            case = f"case_of_{number}"
            record = make_record_like(good[0], cell=f"aide/anthropic/claude-sonnet-4-5/{case}/mini/1")
            owned.append((name, record))
            write_artifact(folder / name, night.plan, [])
            if kind == "shape":
                SHAPES[what](folder / name, "a.json", record)
            else:
                text = json.dumps(FORGERIES[what](document(record)))
                (folder / name / "cells" / "a.json").write_text(text)
        else:
            write_artifact(folder / name, night.plan, [])
            victim = rng.choice(good)
            content = mutated(victim.to_line(), rng) if number % 5 else make_record_like(victim, steps=99).to_line()
            path = folder / name / "cells" / f"{slug_of(victim.cell)}.json"
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    cells = [*night.plan.cells, *(planned_cell(record) for _, record in owned)]
    artifacts = {**night.shards.artifacts, **{name: [record.cell] for name, record in owned}}
    plan = night.plan.model_copy(update={"cells": cells})
    return Night(plan, Shards(run=plan.run, artifacts=artifacts), night.records, night.folder), names


def test_of_a_thousand_hostile_artifacts_none_is_written_and_none_loses_a_good_one(
    night: Night, tmp_path: Path
) -> None:
    night.lay_out(tmp_path / "artifacts")
    whole, hostile = thousand(tmp_path / "artifacts", night, seed=20261122)
    assert len(hostile) == 1000
    admission = whole.check()
    artifacts, refused = find_artifacts([tmp_path / "artifacts"], Caps())
    assert refused == []
    collected = collect_bundle(artifacts, admission, Caps())
    assert cells_of(collected) == night.cells
    assert {item.artifact.name for item in collected.taken} == set(night.records)
    lines = lines_of(collected)
    assert_harmless(lines)
    named = {line.split("/")[0].split(":")[0] for line in lines}
    assert named == hostile, "each of them is named, and nobody else"
    bare = make_bare(tmp_path / "results.git")
    ResultsBranch(bare).commit(collected.bundle(admission, 1))
    stored = {record.cell: record for record in ResultsBranch(bare).records()}
    assert stored == {record.cell: record for records in night.records.values() for record in records}
    assert mldb("results", "verify", "results.git", cwd=tmp_path).stdout.startswith("0 findings")


NIGHT = make_planned_night(1, 1)
CHECK = NIGHT.check(shards=False)
DOCUMENT = document(next(iter(NIGHT.records.values()))[0])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
LISTS = st.lists(LEAVES, max_size=3)
VALUES = (
    LEAVES | LISTS | st.dictionaries(st.text(max_size=10), LEAVES | LISTS, max_size=3) | st.lists(LISTS, max_size=2)
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, object]:
    """The document of a record with some values exchanged, at any depth."""
    facts = json.loads(json.dumps(DOCUMENT))
    for _ in range(draw(st.integers(1, 3))):
        here = facts
        while True:
            keys = list(here) if isinstance(here, dict) else list(range(len(here)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(here[key], (dict, list)) and here[key] and draw(st.booleans()):
                here = here[key]
                continue
            here[key] = draw(VALUES)
            break
    return facts  # type: ignore[no-any-return]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.binary(max_size=200), documents().map(lambda facts: json.dumps(facts).encode())))
def test_whatever_a_file_holds_it_is_the_planned_record_or_one_line(content: bytes) -> None:
    found = CHECK.read(content, "x")
    if isinstance(found, str):
        assert found
        return
    planned = NIGHT.plan.cells[0]
    assert (found.cell, found.agent.digest, found.case.digest) == (
        planned.cell,
        planned.agent_digest,
        planned.case_digest,
    )
    assert Record.model_validate_json(found.to_line()) == found


def test_a_record_must_name_the_run_url_that_is_asked_for(night: Night, tmp_path: Path) -> None:
    night.lay_out(tmp_path)
    admission = night.check(shards=False, run_url="https://github.com/o/r/actions/runs/1")
    collected = collect_bundle(find_artifacts([tmp_path], Caps())[0], admission, Caps())
    assert collected.taken == []

    assert "run_url" in lines_of(collected)[0]


def test_shards_of_another_run_or_of_unplanned_cells_are_refused(night: Night) -> None:
    for wrong in (Shards(run="night-2", artifacts={}), Shards(run="night-1", artifacts={"a": ["x"]})):
        with pytest.raises(UserError, match="are not of run night-1"):
            PlanCheck.to(night.plan, wrong)


def write_plans(night: Night, folder: Path) -> list[str]:
    (folder / "run.json").write_text(night.plan.model_dump_json(by_alias=True))
    (folder / "shards.json").write_text(night.shards.model_dump_json(by_alias=True))
    return ["--plan", "run.json", "--shards", "shards.json", "--cases", str(night.cases)]


@pytest.mark.parametrize("way", WAYS)
def test_the_command_stores_once_and_can_be_repeated(
    night: Night, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    night.lay_out(tmp_path / "artifacts")
    plans = write_plans(night, tmp_path)
    with open_target(way, tmp_path, monkeypatch) as target:
        where = ["--results", target.address, "--via", target.via]
        first = mldb("results", "collect", "artifacts", *plans, *where, cwd=tmp_path, MLDB_TOKEN="sesame")
        tip = tip_of(target.bare)
        counted, stored = first.stdout.splitlines()
        assert counted == "run night-1: 16 of 16 planned cells; 0 missing; 0 refused; 0 traces kept"
        assert stored == f"results: commit {tip} on branch {BRANCH}"
        again = mldb("results", "collect", "artifacts", *plans, *where, "--json", cwd=tmp_path, MLDB_TOKEN="sesame")
        (document,) = json.loads(again.stdout)["runs"]
        assert (document["commit"], document["new"], document["records"]) == (tip, False, 16)
        assert not list((tmp_path / "mldb-kept").iterdir()), "nothing is left behind"
    assert mldb("results", "verify", "results.git", cwd=tmp_path).stdout.startswith("0 findings")


def test_what_is_refused_is_told_and_the_rest_stored(night: Night, tmp_path: Path) -> None:
    night.lay_out(tmp_path / "artifacts")
    plans = write_plans(night, tmp_path)
    name, (victim, *_) = next(iter(night.records.items()))
    bad = tmp_path / "artifacts" / name / "cells" / f"{slug_of(victim.cell)}.json"
    bad.write_text(json.dumps(FORGERIES["an unknown field that speaks"](document(victim))))
    (tmp_path / "artifacts" / "\x1b[31m::error::x ##[add-mask]").mkdir()
    summary = tmp_path / "summary.md"
    done = mldb(
        "results", "collect", "artifacts", *plans, "--results", "results.git", cwd=tmp_path, status=1,
        GITHUB_STEP_SUMMARY=str(summary),
    )  # fmt: skip
    assert "15 of 16 planned cells; 1 missing; 2 refused; 0 traces kept\n" in done.stdout
    assert f"refused: {name}/cells/{bad.name}: is not a record of this schema: field" in done.stderr
    for line in (done.stdout + done.stderr).splitlines():
        assert_harmless([line])
    text = summary.read_text()
    assert "2 refused" in text
    assert "- missing: " in text
    assert "\x1b" not in text
    assert "<" not in text
    assert len(list(ResultsBranch(tmp_path / "results.git").records())) == 15
    shutil.rmtree(tmp_path / "artifacts")
    (tmp_path / "artifacts").mkdir()
    empty = mldb("results", "collect", "artifacts", *plans, "--results", "other.git", cwd=tmp_path, status=1)
    assert "0 of 16 planned cells; 16 missing; 0 refused; 0 traces kept\nnothing was stored\n" in empty.stdout
    assert not (tmp_path / "other.git").exists()


def test_given_up_the_bundle_is_kept_and_the_printed_command_resumes(night: Night, tmp_path: Path) -> None:
    night.lay_out(tmp_path / "artifacts")
    plans = write_plans(night, tmp_path)
    bare = make_bare(tmp_path / "results.git")
    hook = bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    where = ["--results", f"file://{bare}", "--patience", "2"]
    failed = mldb("results", "collect", "artifacts", *plans, *where, cwd=tmp_path, status=3)
    assert "was not stored in" in failed.stderr
    assert "resume with\n  ml-dev-bench results push mldb-kept/night-1-1-" in failed.stderr
    shutil.rmtree(tmp_path / "artifacts")
    command = shlex.split(failed.stderr.splitlines()[-1])
    assert command[0] == "ml-dev-bench"
    still = mldb(*command[1:], "--patience", "1", cwd=tmp_path, status=3)
    assert "kept in mldb-kept/night-1-1-" in still.stderr
    hook.unlink()
    done = mldb(*command[1:], cwd=tmp_path)
    assert done.stdout == f"results: commit {tip_of(bare)} on branch {BRANCH}\n"
    assert not list((tmp_path / "mldb-kept").iterdir())
    assert sorted(record.cell for record in ResultsBranch(bare).records()) == night.cells
    assert git(bare, "rev-list", "--count", BRANCH).strip() == "1"


def test_a_kept_bundle_comes_back_whole_or_not_at_all(night: Night, tmp_path: Path) -> None:
    night.lay_out(tmp_path / "artifacts")
    bundle = merge(night, tmp_path / "artifacts").bundle(night.check(), 3)
    bundle = replace(bundle, inline={"traces/sha256/ab/x.tar.gz": b"\x00\xff"})
    folder = save_pending(bundle, tmp_path / "kept")
    (digest,) = digests_of_pending(tmp_path / "kept")
    assert load_pending(folder) == bundle == load_pending(folder, [digest])
    (inline,) = (folder / "inline").rglob("*.gz")
    inline.write_bytes(b"of another job")
    with pytest.raises(UserError, match="is not the bundle that was kept"):
        load_pending(folder, [digest])
    (folder / "records.jsonl").write_bytes((folder / "records.jsonl").read_bytes()[:-1])
    with pytest.raises(UserError, match="does not match the digest"):
        load_pending(folder)
    about = json.loads((folder / "bundle.json").read_text())
    (folder / "bundle.json").write_text(json.dumps({**about, "inline": ["../../x"]}))
    with pytest.raises(UserError, match="cannot be a name on the results branch"):
        load_pending(folder)
    with pytest.raises(UserError, match="cannot be read"):
        load_pending(tmp_path / "nowhere", [digest])


def test_traces_of_failures_and_a_sample_go_where_they_are_told(tmp_path: Path) -> None:
    from tests.helpers.store import taken

    night = make_planned_night(1, 1)
    (name, (record,)) = next(iter(night.records.items()))
    folder = tmp_path / "artifacts" / name
    item = taken(folder, {"agent.log": b"1\n"}, case=record.case.id, agent=record.agent.id)
    moved = make_record_like(record, artifacts=document(item.record)["artifacts"])
    (folder / "cells").mkdir()
    (folder / "cells" / f"{slug_of(moved.cell)}.json").write_text(moved.to_line())
    plans = write_plans(night, tmp_path)
    where = ["--results", "results.git", "--traces", "kept", "--trace-sample", "0"]
    done = mldb("results", "collect", "artifacts", *plans, *where, cwd=tmp_path)
    assert "1 of 1 planned cells; 0 missing; 0 refused; 1 traces kept\n" in done.stdout
    (trace,) = next(iter(ResultsBranch(tmp_path / "results.git").manifests())).traces
    assert (tmp_path / "kept" / trace.place.removeprefix("folder:")).is_file()


def test_a_dry_run_stores_nothing(night: Night, tmp_path: Path) -> None:
    night.lay_out(tmp_path / "artifacts")
    plans = write_plans(night, tmp_path)
    done = mldb("results", "collect", "artifacts", *plans, "--results", "results.git", "--dry-run", cwd=tmp_path)
    assert done.stdout.endswith("nothing was stored (--dry-run)\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["artifacts", "run.json", "shards.json"]


def test_a_plan_of_several_runs_and_shards_is_collected_run_by_run(tmp_path: Path) -> None:
    """As `ml-dev-bench plan --out` writes it and `run-shard` names its folders."""
    night = make_planned_night()
    second = night.plan.model_copy(update={"run": "night-2"})
    shards: list[Shard] = []
    for number, records in enumerate(night.records.values()):
        cells = [[cell.cell for cell in night.plan.cells].index(record.cell) for record in records]
        parts = [ShardPart(run=run, cells=cells) for run in ("night-1", "night-2")]
        shard = Shard(id=f"cpu-{number}", machine="cpu", labels=[], jobs=1, seconds=1, parts=parts)
        shards.append(shard)
        write_artifact(tmp_path / "artifacts" / f"night-1-{shard.id}", night.plan, records)
        moved = [of_another_run(it, "night-2") for it in records]
        write_artifact(tmp_path / "artifacts" / f"night-2-{shard.id}", second, moved)
        if number == 0:
            # Of the other run, another shard, and nobody: each under a name that is not theirs.
            write_artifact(tmp_path / "artifacts" / "aa-nobody", night.plan, records)
            path = tmp_path / "artifacts" / f"night-2-{shard.id}" / "cells" / "zz.json"
            path.write_text(night.records[f"mldb-{night.plan.run}-shard-1"][0].to_line())
    expected = Expected(
        cells=32,
        shards=4,
        wall_s=1,
        cell_hours=1,
        gpu_hours=0,
        model_usd=0,
        unpriced_cells=0,
        machine_usd=0,
        sources={},
    )
    plan = PlanFile(name="night", created=now(), runs=[night.plan, second], shards=shards, expected=expected)
    (tmp_path / "plan.json").write_text(plan.model_dump_json(by_alias=True))
    done = mldb(
        "results", "collect", "artifacts", "--plan", "plan.json", "--results", "results.git",
        *("--cases", night.cases), cwd=tmp_path, status=1,
    )  # fmt: skip
    assert "run night-1: 16 of 16 planned cells; 0 missing; 4 refused" in done.stdout
    assert "run night-2: 16 of 16 planned cells; 0 missing; 1 refused" in done.stdout
    assert done.stderr.count("aa-nobody/cells/") == 4
    assert "night-2-cpu-0/cells/zz.json: belongs to run night-1, not to night-2" in done.stderr
    manifests = ResultsBranch(tmp_path / "results.git").manifests()
    assert [sum(file.records for file in manifest.files) for manifest in manifests] == [16, 16]


def of_another_run(record: Record, run: str) -> Record:
    """The record as another run would have measured it."""
    facts = document(record)
    return make_record_like(
        record, provenance=facts["provenance"] | {"run": run}, judge_seed=f"{int(facts['judge_seed'], 16) + 1000:032x}"
    )


def test_a_record_of_one_run_is_not_stored_as_one_of_another(night: Night, tmp_path: Path) -> None:
    """Two runs of one plan: the second brings a record of the first under its own name, and the rest is its own."""
    records = next(iter(night.records.values()))
    second = night.plan.model_copy(update={"run": "night-2"})
    copied, *rest = records
    moved = [make_record_like(copied, provenance=document(copied)["provenance"] | {"run": "night-2"})]
    moved += [of_another_run(record, "night-2") for record in rest]
    write_artifact(tmp_path / "night-1-a", night.plan, records)
    write_artifact(tmp_path / "night-2-a", second, moved)
    first = merge(night, tmp_path / "night-1-a", shards=False)
    known = {measurement_of(it.record): f"cell {it.record.cell} of run night-1" for it in first.taken}
    artifacts, _ = find_artifacts([tmp_path / "night-2-a"], Caps())
    again = collect_bundle(artifacts, replace(night, plan=second).check(shards=False), Caps(), known=known)
    assert cells_of(again) == sorted(record.cell for record in rest)
    assert f"repeats the measurement of cell {copied.cell} of run night-1" in lines_of(again)[0]


def test_a_machine_s_choice_of_sandbox_never_falls_on_none(night: Night, tmp_path: Path) -> None:
    plan = night.plan.model_copy(update={"sandbox": "auto"})
    admission = replace(night, plan=plan).check(shards=False)
    record = night.records[f"mldb-{plan.run}-shard-0"][0]
    assert admission.read(record.to_line().encode(), "x") == record
    for said in ({"sandbox": "process", "isolated": False}, {"sandbox": "process", "isolated": True}):
        forged = make_record_like(record, provenance=document(record)["provenance"] | said)
        found = admission.read(forged.to_line().encode(), "x")
        assert found == "ran in a sandbox that does not isolate, which was not planned"


def test_shards_whose_machines_chose_differently_are_told(night: Night, tmp_path: Path) -> None:
    """`auto` is chosen where a shard runs: what that makes hard to compare is said with what is stored."""
    plan = night.plan.model_copy(update={"sandbox": "auto"})
    for number, (name, records) in enumerate(night.records.items()):
        box = {"sandbox": "bubblewrap"} if number % 2 else {"sandbox": "docker", "image": f"sha256:{'1' * 64}"}
        moved = [make_record_like(it, provenance=document(it)["provenance"] | box) for it in records]
        write_artifact(tmp_path / "artifacts" / name, plan, moved)
    arguments = write_plans(replace(night, plan=plan), tmp_path)
    done = mldb("results", "collect", "artifacts", *arguments, "--results", "results.git", cwd=tmp_path)
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert warnings
    assert all("was measured in 2 sandboxes (bubblewrap, docker)" in it for it in warnings)
    again = mldb("results", "collect", "artifacts", *arguments, "--results", "results.git", "--json", cwd=tmp_path)
    assert [f"warning: {it}" for it in json.loads(again.stdout)["runs"][0]["warnings"]] == warnings


def test_a_plan_that_is_none_is_refused_before_anything_is_read(night: Night, tmp_path: Path) -> None:
    night.lay_out(tmp_path / "artifacts")
    (tmp_path / "bad.json").write_text("{}")
    for plan, said in (("bad.json", "field `run`"), ("missing.json", "cannot be read: No such file")):
        failed = mldb(
            "results", "collect", "artifacts", "--plan", plan, "--results", "results.git", cwd=tmp_path, status=2
        )
        assert said in failed.stderr
        assert "Traceback" not in failed.stderr
    unplanned = mldb("results", "collect", "artifacts", "--results", "results.git", cwd=tmp_path, status=2)
    assert "missing option '--plan'" in unplanned.stderr


def test_a_commit_after_a_lost_answer_is_found_and_not_made_twice(night: Night, tmp_path: Path) -> None:
    """The push went through and the connection broke before the answer: the next try finds its own work."""
    bare = make_bare(tmp_path / "results.git")
    admission = PlanCheck.to(night.plan)
    night.lay_out(tmp_path / "artifacts")
    bundle = merge(night, tmp_path / "artifacts").bundle(admission, 1)
    hook = bare / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    # The server's process dies right after the branch has moved, once.
    hook.write_text(f"#!/bin/sh\nrm {hook}\nkill -9 $PPID\n")
    hook.chmod(0o755)
    done = ResultsBranch(f"file://{bare}", retry=HASTY).commit(bundle)
    assert not done.new
    assert done.commit == tip_of(bare)
    assert git(bare, "rev-list", "--count", BRANCH).strip() == "1"
    assert len(list(ResultsBranch(bare).records())) == len(night.cells)
