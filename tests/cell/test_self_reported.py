"""What an agent's own program says it used stands beside what was metered, and decides nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.cell.run import run_cell
from bench.formats.observed import SelfReported
from bench.formats.record import Record
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import RIGHT, make_agent, make_case, make_cell, make_context


def _record(tmp_path: Path, report: str) -> Record:
    code = f"""
import os, pathlib
out = pathlib.Path(os.environ["BENCH_OUT_DIR"])
{report}
pathlib.Path("answer.py").write_text({RIGHT!r})
"""
    agent = make_agent(tmp_path / "agents", code)
    return run_cell(make_cell(agent, make_case(tmp_path / "cases")), make_context(tmp_path, ProcessSandbox()))


def test_both_figures_stand_in_the_record(tmp_path: Path) -> None:
    said: dict[str, Any] = {"calls": 12, "input_tokens": 84210, "cost_usd": 0.41}
    record = _record(tmp_path, f"(out / 'usage.json').write_text({json.dumps(said)!r})")
    assert record.self_reported == SelfReported(**said)
    assert (record.steps, record.cost_usd, record.cost_status) == (0, 0.0, "none")
    assert Record.model_validate_json(record.to_line()) == record


@pytest.mark.parametrize(
    "report",
    [
        "", "(out / 'usage.json').write_text('{')", "(out / 'usage.json').write_text('[' * 5000)",
        "(out / 'usage.json').write_text('{\"calls\": -1}')", "(out / 'usage.json').write_text('{\"steps\": 1}')",
        "(out / 'usage.json').write_text('{\"cost_usd\": 1e400}')",
        "(out / 'usage.json').write_text(' ' * 20000 + '{}')",
        "(out / 'usage.json').symlink_to('/etc/passwd')", "(out / 'usage.json').mkdir()",
        "os.mkfifo(out / 'usage.json')",
    ],
)  # fmt: skip
def test_what_is_not_of_this_form_is_left_aside(tmp_path: Path, report: str) -> None:
    record = _record(tmp_path, report)
    assert (record.outcome, record.self_reported) == ("graded", None)
