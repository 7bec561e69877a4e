"""What each program says of its own use, in its real output, becomes `usage.json`; its output goes on unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.formats.agent_lookup import load_agents
from bench.formats.observed import SelfReported
from tests.helpers.cells import ROOT, new_token, processes_with

REPORT = ROOT / "agents" / "_shared" / "usage" / "report_usage.py"
SAID = ROOT / "tests" / "data" / "self_reported"
"""The lines with figures of real runs: four calls, 4,670 tokens in, 600 of them cached, 210 out; aider makes one."""
FOUR = {"input_tokens": 4670, "cached_tokens": 600, "output_tokens": 210}
EXPECTED = {
    "claude_code": {"input_tokens": 4780, "cached_tokens": 600, "output_tokens": 210, "cost_usd": 0.015952499999999998},
    "codex": FOUR,
    "opencode": {**FOUR, "calls": 4},
    "qwen_code": FOUR,
    "gemini_cli": FOUR,
    "aider": {"input_tokens": 1300, "cached_tokens": 0, "output_tokens": 51},
}


def ran(name: str, folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-I", "-S", "-B", REPORT, name, "--", *command],
        env={**os.environ, "BENCH_OUT_DIR": str(folder), **variables}, capture_output=True, check=False, timeout=60,
    )  # fmt: skip


def reported(folder: Path) -> SelfReported | None:
    path = folder / "usage.json"
    return SelfReported.model_validate_json(path.read_bytes()) if path.exists() else None


@pytest.mark.parametrize("name", EXPECTED)
def test_the_figures_of_a_real_output_are_found(name: str, tmp_path: Path) -> None:
    (file,) = SAID.glob(f"{name}.*")
    done = ran(name, tmp_path, "cat", str(file))
    assert (done.returncode, done.stdout) == (0, file.read_bytes())
    assert reported(tmp_path) == SelfReported.model_validate(EXPECTED[name])


def test_the_figures_of_vibe_are_in_its_sessions(tmp_path: Path) -> None:
    journal = tmp_path / "vibe/logs/session/unified/one/journal/0000000000000001.jsonl"
    journal.parent.mkdir(parents=True)
    script = f"cp {SAID / 'mistral_vibe.jsonl'} {journal}; echo said"
    done = ran("mistral_vibe", tmp_path, "sh", "-c", script, VIBE_HOME=str(tmp_path / "vibe"))
    assert done.stdout == b"said\n"
    assert reported(tmp_path) == SelfReported.model_validate(FOUR)


def test_aider_tells_caches_and_dollars_of_several_messages(tmp_path: Path) -> None:
    text = (
        "Tokens: 12k sent, 1.5k cache write, 2.5k cache hit, 300 received.\nCost: $0.05 message, $0.05 session.\n"
        "Tokens: 900 sent, 20 received. Cost: $0.01 message, $0.06 session.\n"
    )
    ran("aider", tmp_path, "printf", text)
    said = {"input_tokens": 12900, "cached_tokens": 2500, "output_tokens": 320, "cost_usd": 0.06}
    assert reported(tmp_path) == SelfReported.model_validate(said)


def test_codex_tells_its_sums_and_opencode_each_call(tmp_path: Path) -> None:
    for name, times in (("codex", 1), ("opencode", 2)):
        (file,) = SAID.glob(f"{name}.*")
        folder = tmp_path / name
        folder.mkdir()
        ran(name, folder, "cat", str(file), str(file))
        found = reported(folder)
        assert found is not None and found.input_tokens == FOUR["input_tokens"] * times


@pytest.mark.parametrize("name", [*EXPECTED, "mistral_vibe"])
def test_what_says_nothing_or_nonsense_is_passed_on(name: str, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.write_bytes(
        b'{"type":"result"}\n{"type":"turn.completed","usage":7}\n{"type":"step_finish","part":[]}\n[1]\n{\n\xff\xfe\0\n'
        b'{"type":"result","stats":{},"usage":{},"modelUsage":[]}\nTokens: k sent, x received.\nno newline'
    )
    done = ran(name, tmp_path, "sh", "-c", f"cat {odd}; echo oops >&2; exit 7", VIBE_HOME="/none")
    assert (done.returncode, done.stdout, done.stderr) == (7, odd.read_bytes(), b"oops\n")
    assert reported(tmp_path) is None


def test_a_process_left_behind_does_not_keep_it(tmp_path: Path) -> None:
    """It holds the output open; the program's end is the end, and what it said is kept."""
    token = new_token()
    (file,) = SAID.glob("codex.*")
    began = time.monotonic()
    done = ran("codex", tmp_path, "sh", "-c", f"sh -c 'sleep 300; : {token}' 2>&- & cat {file}; kill -9 $$")
    left = processes_with(token)
    assert done.returncode == 128 + 9
    assert reported(tmp_path) == SelfReported.model_validate(FOUR)
    for process in left:
        os.kill(process, 9)
    assert left and time.monotonic() - began < 60


def test_every_preset_that_runs_a_program_reports() -> None:
    """By the reader of its own name, from the folder that it shares."""
    agents = {agent.id: agent for agent in load_agents(ROOT / "agents")}
    for name in (*EXPECTED, "mistral_vibe"):
        assert agents[name].spec.shared == ["../_shared/usage"]
        assert f'report_usage.py" {name} --' in (agents[name].folder / "run.sh").read_text()
