"""Traces on the site: which are published, what their pages say, and what never gets onto one."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import html5lib
import pytest

from bench.cell.inventory import keep_inventory
from bench.cli.pages import write_site as write_from
from bench.cli.stored import stored_results
from bench.formats.record import Record
from bench.pages.addresses import cell_page
from bench.pages.build import SiteOptions, Written, write_site
from bench.pages.cell_trace import check_links, read_cell
from bench.pages.traces import FolderTraces, trace_page
from bench.pages.words import without_host_paths
from bench.stats import RecordResults
from bench.store import Bundle, ResultsBranch, init_bare
from bench.store.trace_storage import inline_traces
from tests.helpers.pages import HOSTILE, SITE, cases_of, hostile_record, hostile_strings, keep_trace
from tests.helpers.records import START, make_check, make_record
from tests.helpers.sampling import at_night

FAILED = make_check("loss_is_finite", 0.0, "train.py gives a loss that is not finite")


def built(records: list[Record], folder: Path, out: Path, **changes: int) -> Written:
    options = replace(SiteOptions(traces=FolderTraces(lambda run: folder)), **changes)  # type: ignore[arg-type]
    return write_site(partial(RecordResults, records), cases_of(records), out, SITE, options)


def text_of(path: Path) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", path.read_text(encoding="utf-8")))


def test_a_failed_cell_shows_its_steps_and_leads_to_the_step_and_the_file(tmp_path: Path) -> None:
    record = keep_trace(tmp_path, make_record(checks=[FAILED]))
    out = tmp_path / "site"
    built([record], tmp_path, out)
    page = (out / cell_page(record)).read_text()
    text = text_of(out / cell_page(record))
    assert "4 calls" in text and "4,800" not in text
    assert "$0.030" in text and "refused budget_exceeded" in text
    place = f"../../{trace_page(cell_page(record))}"
    assert f'data-part="file-1" href="{place}#file-1">the changes of <code>train.py</code>' in page
    assert f'data-part="step-3" href="{place}#step-3">the last step that named it' in page
    alone = out / trace_page(cell_page(record))
    ids = re.findall(r' id="([^"]+)"', alone.read_text())
    assert {"step-1", "step-3", "step-4", "file-1", "log", "steps", "changes"} <= set(ids)
    assert len(ids) == len(set(ids))
    said = text_of(alone)
    for words in ("I go on. loss", "edit train.py", "+ loss", "- a = 0", "+ a = 1", "ran loss", "too large to be kept"):
        assert words in said, words


def test_the_file_of_a_trace_needs_nothing_else_and_runs_nothing(tmp_path: Path) -> None:
    record = keep_trace(tmp_path, make_record(checks=[FAILED]), word=HOSTILE, name="a<script>.py")
    built([record], tmp_path, tmp_path / "site")
    alone = (tmp_path / "site" / trace_page(cell_page(record))).read_text()
    for page in (alone, (tmp_path / "site" / cell_page(record)).read_text()):
        tags = re.sub(r"<style>.*?</style>|>[^<]*<", "><", page, flags=re.DOTALL)
        assert not re.search(r"<(script(?! src=)|img|iframe|object|form)|\son\w+=", tags)
        assert "&lt;script&gt;" in page and "\u202e" not in page and "\x1b" not in page
    style = re.search(r"<style>(.*?)</style>", alone, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in alone
    assert "<link" not in alone and not re.search(r"<[^>]* src=", re.sub(r">[^<]*<", "><", alone))


@pytest.mark.nightly
def test_two_hundred_hostile_texts_in_every_field_stay_texts(tmp_path: Path) -> None:
    texts = hostile_strings()
    assert len(set(texts)) == 200
    records = [
        keep_trace(tmp_path, hostile_record(text, trial=at + 1), steps=1, word=text) for at, text in enumerate(texts)
    ]
    cases = [replace(it, title=texts[0], task="\n\n".join(texts), readme=texts[1]) for it in cases_of(records[:1])]
    options = SiteOptions(title=texts[2], traces=FolderTraces(lambda run: tmp_path))
    write_site(partial(RecordResults, records), cases, tmp_path / "site", SITE, options)
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 600
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    for page in pages:
        document = parser.parse(page.read_text(encoding="utf-8"))
        for node in document.iter():
            assert node.tag not in ("img", "iframe", "form", "base", "math", "object"), page
            assert not any(name.startswith("on") or name == "style" for name in node.attrib), page
            assert not node.get("href", "").lower().startswith(("javascript:", "//")), page
            assert node.tag != "script" or node.get("src", "").startswith(("static/", "../")), page


def test_within_a_budget_failures_come_first_and_the_rest_say_where_they_are(tmp_path: Path) -> None:
    good = keep_trace(tmp_path, make_record(trial=1))
    bad = keep_trace(tmp_path, make_record(trial=2, checks=[FAILED]))
    none = make_record(trial=3)
    out = tmp_path / "site"
    built([good, bad, none], tmp_path, out, trace_bytes=1)
    assert (out / trace_page(cell_page(bad))).is_file()
    assert not (out / trace_page(cell_page(good))).exists()
    assert "publishes a bounded number of bytes" in text_of(out / cell_page(good))
    assert "No trace of this cell was kept" in text_of(out / cell_page(none))
    again = built([good, bad, none], tmp_path, out, trace_bytes=1)
    assert again.made == 0


def test_a_trace_that_is_not_the_recorded_one_is_named_and_not_shown(tmp_path: Path) -> None:
    record = keep_trace(tmp_path, make_record(checks=[FAILED]))
    (tmp_path / record.artifacts[0].place).write_text("{}\n")
    built([record], tmp_path, tmp_path / "site")
    assert "calls.jsonl: is not the file that the record names" in text_of(tmp_path / "site" / cell_page(record))
    assert not (tmp_path / "site" / "traces").exists() or not list((tmp_path / "site" / "traces").rglob("*.html"))


def test_traces_come_from_a_results_branch_too(tmp_path: Path) -> None:
    record = keep_trace(tmp_path / "run", make_record(checks=[FAILED]))
    kept = inline_traces([record], tmp_path / "run")
    init_bare(tmp_path / "results.git", "mldb-results")
    bundle = Bundle(record.provenance.run, 1, [record], START, kept.traces, kept.inline)
    ResultsBranch(tmp_path / "results.git", "mldb-results").commit(bundle)
    with stored_results(str(tmp_path / "results.git"), "mldb-results") as results:
        write_from(results, [], tmp_path / "site")
    stored = cell_page(record.model_copy(update={"artifacts": []}))
    assert "edit train.py" in text_of(tmp_path / "site" / trace_page(stored))


@pytest.mark.parametrize(
    ("inventory", "changes"),
    [
        ({"changed": 5}, {}),
        ({"changed": [{"a": 1}]}, {}),
        ({"changed": ["a.py"]}, {"files": 5}),
        ({"changed": ["a.py"]}, {"files": ["a.py"]}),
        ({"changed": ["a.py"]}, {"files": [{"name": "a.py", "before": 1, "after": []}]}),
        ({"changed": ["a.py"]}, {"files": [], "left_out": {"a.py": "why"}}),
    ],
)
def test_a_trace_of_another_form_does_not_end_the_build(
    tmp_path: Path, inventory: dict[str, object], changes: dict[str, object]
) -> None:
    """Whoever owns a shard's machine writes these files, and every later build of the board reads them."""
    (tmp_path / "workspace.json").write_text(json.dumps(inventory))
    (tmp_path / "changes.json").write_text(json.dumps(changes))
    told = read_cell(tmp_path)
    assert told.files == [] and (told.compared or [name for name, _ in told.unshown] == ["a.py"])


def test_texts_of_changed_files_are_kept_within_bounds(tmp_path: Path) -> None:
    start, after, kept = (tmp_path / name for name in ("start", "after", "kept"))
    for folder in (start, after, kept):
        folder.mkdir()
    (start / "train.py").write_text("a\nb\n")
    (start / "gone.py").write_text("x\n")
    (after / "train.py").write_text("a\nc\n")
    (after / "model.bin").write_bytes(b"\x00\xff" * 50)
    (after / "huge.txt").write_text("x" * 900_000)
    assert keep_inventory(start, after, kept / "workspace.json", {})
    told = read_cell(kept)
    by_name = {file.name: file for file in told.files}
    assert by_name["train.py"].lines == [(" ", "a"), ("-", "b"), ("+", "c")]
    assert (by_name["gone.py"].kind, by_name["gone.py"].removed) == ("removed", 1)
    assert dict(told.unshown) == {"model.bin": "is not text", "huge.txt": "900000 bytes: too large to be kept"}
    assert (kept / "changes.json").stat().st_size < 2000


def test_a_text_that_would_take_long_to_compare_is_shown_whole(tmp_path: Path) -> None:
    start, after = tmp_path / "start", tmp_path / "after"
    for folder, line in ((start, "same\n"), (after, "same\nsame\n")):
        folder.mkdir()
        (folder / "a.txt").write_text(line * 1500)
    keep_inventory(start, after, tmp_path / "workspace.json", {})
    (file,) = read_cell(tmp_path).files
    assert (file.removed, file.added, file.more) == (1500, 3000, 4100)


def test_a_step_of_many_short_texts_has_a_page_of_bounded_size(tmp_path: Path) -> None:
    results = [{"type": "tool_result", "content": "y"}] * 5000
    sent = {"frame": "", "new": ["a"]}
    line = {"time": "2026-11-01T00:00:00Z", "role": "main", "alias": "m", "model": "m", "status": "ok", "http": 200}
    (tmp_path / "calls.jsonl").write_text(json.dumps({**line, "seq": 1, "sent": sent}) + "\n")
    stored = {"id": "a", "value": {"role": "user", "content": results}}
    (tmp_path / "calls.bodies.jsonl").write_text(json.dumps(stored) + "\n")
    (step,) = read_cell(tmp_path).steps
    assert len(step.said) == 101 and step.said[-1].text == "[4900 more are in the archive alone]"


def test_a_cell_of_which_little_was_kept_says_so(tmp_path: Path) -> None:
    (tmp_path / "agent.log").write_bytes(b"")
    told = read_cell(tmp_path)
    assert not told.has_calls and told.has_log and "No list of the workspace's files" in told.compared
    assert check_links(FAILED, told).step == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/ann/demo/runs/n-1/scratch/react_x_1.ab/workspace/train.py:3", "…/workspace/train.py:3"),
        ('File "/home/ann/x.py"', 'File "~/x.py"'),
        ("/opt/env/lib/python3.11/site-packages/torch/nn.py", "…/site-packages/torch/nn.py"),
        ("see /Users/ann and C:\\Users\\ann\\x", "see ~ and ~\\x"),
        ("/tmp/mldb-0.run-ab12/sock and /tmp/out.txt", "…/sock and /tmp/out.txt"),
        ("https://example.org/home is a page, 3/4 of it", "https://example.org/home is a page, 3/4 of it"),
        ("/workspace/train.py", "/workspace/train.py"),
    ],
)
def test_host_paths_never_reach_a_page(text: str, shown: str) -> None:
    assert without_host_paths(text) == shown


@pytest.mark.parametrize("part", [at_night("/a"), at_night("/tmp"), "/tmp/b"])
def test_a_text_of_slashes_is_looked_through_at_once(part: str) -> None:
    """What grows with the square of its length would take hours."""
    text = f"/scratch/ /mldb- {part * 200_000}"
    assert without_host_paths(text).endswith(part)
