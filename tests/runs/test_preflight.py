"""What is missing for a run is told before anything is written, all of it in one line."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bench.formats.plan import Cell
from bench.formats.run_limits import RunLimits
from bench.runs import NotReady, require_files, require_ready
from bench.runs.preflight import too_little_memory
from bench.sandbox import open_sandbox
from tests.helpers.cells import make_agent, make_case
from tests.helpers.command import mldb
from tests.helpers.provider import Reply, ScriptedUpstream

LIVE = {"main": "openai/gpt-4o-mini"}
SCRIPT = "print('hello')"


def cell_of(tmp_path: Path, script: str = SCRIPT, **facts: Any) -> Cell:
    agent = make_agent(tmp_path, script, **facts)
    return Cell(agent, dict(agent.spec.models), make_case(tmp_path), "mini", 1)


def faults(cell: Cell, folder: Path | None = None, **environment: str) -> NotReady:
    with pytest.raises(NotReady) as caught:
        require_ready([cell], open_sandbox("process"), folder, environment=environment)
    assert "\n" not in str(caught.value)
    return caught.value


def test_nothing_is_missing_where_nothing_is(tmp_path: Path) -> None:
    require_ready([cell_of(tmp_path)], open_sandbox("process"), tmp_path / "new" / "run", environment={})


def test_a_replayed_model_needs_neither_key_nor_provider(tmp_path: Path) -> None:
    cell = cell_of(tmp_path, models={"main": "replay/some"})
    (cell.agent.folder / "cassettes" / "some").mkdir(parents=True)
    (cell.agent.folder / "cassettes" / "some" / "double_it.yaml").touch()
    require_ready([cell], open_sandbox("process"), None, environment={})


def test_a_missing_key_is_named_with_its_variable(tmp_path: Path) -> None:
    fault = faults(cell_of(tmp_path, models=LIVE))
    assert "needs OPENAI_API_KEY, which is not set" in str(fault)
    assert fault.variables == ["OPENAI_API_KEY"]


def test_all_that_is_missing_is_one_line(tmp_path: Path) -> None:
    cell = cell_of(
        tmp_path, models={**LIVE, "judge": "anthropic/claude-sonnet-4-5"}, command=["python", "{agent}/other.py"]
    )
    (tmp_path / "taken").write_text("a file")
    fault = faults(cell, tmp_path / "taken" / "run")
    for part in (
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "'other.py' does not exist",
        f"{tmp_path}/taken: is not a folder",
    ):
        assert part in str(fault), fault
    assert fault.variables == ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]


def free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let every disk have `size` bytes left."""
    answer = os.statvfs_result((4096, 4096, 1 << 40, size // 4096, size // 4096, 0, 0, 1 << 20, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: answer)


def test_a_disk_without_room_for_what_a_case_allows_is_told_before_the_first_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cell_of(tmp_path)
    free(monkeypatch, (64 << 20) * 4 // 3 - 4096)
    assert "allows an agent 64 MB of disk, for which 86 MB must be free; 85 MB are" in str(
        faults(cell, tmp_path / "run")
    )
    # What agents have left since the run began is no reason to refuse the rest of it.
    (tmp_path / "run").mkdir()
    require_ready([cell], open_sandbox("process"), tmp_path / "run", environment={})


def test_a_disk_with_room_for_what_a_case_allows_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, (64 << 20) * 4 // 3 + 4096)
    require_ready([cell_of(tmp_path)], open_sandbox("process"), tmp_path / "run", environment={})


@pytest.mark.parametrize(
    ("limit", "jobs", "said"),
    [
        (4_096, 1, ""),
        (4_096, 2, ""),
        (4_096, 3, "3 cells may use 12288 MB of memory at a time, and this machine has 7960 MB"),
        (4_096, 9, "5 cells may use 20480 MB"),
        (8_193, 1, "1 cell may use 8193 MB"),
    ],
)
def test_more_than_the_memory_holds_is_told_of(tmp_path: Path, limit: int, jobs: int, said: str) -> None:
    case = make_case(tmp_path, limits={"memory_mb": limit})
    told = too_little_memory([Cell(make_agent(tmp_path, SCRIPT), {}, case, "mini", 1)] * 5, jobs, 7_960)
    assert told.startswith(said) and bool(told) == bool(said)
    assert not said or told.endswith("--jobs 2 is safe" if limit < 8_192 else "a larger machine is safe")


def test_a_provider_is_asked_and_nothing_is_bought(tmp_path: Path) -> None:
    cell = cell_of(tmp_path, models=LIVE)
    with ScriptedUpstream([Reply("hello")]) as upstream:
        require_ready([cell], open_sandbox("process"), None, environment=upstream.environment())
        assert upstream.usage_totals.calls == 0


def test_a_provider_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        fault = faults(cell_of(tmp_path, models=LIVE), OPENAI_API_KEY="sk-x", OPENAI_BASE_URL=address)
    assert f"at {address} does not answer (ConnectError)" in str(fault)
    assert "sk-x" not in str(fault)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, "{}", ""),
        (401, '{"error": {"message": "Incorrect API key"}}', "refuses the key (status 401)"),
        (400, '{"error": {"message": "API key not valid."}}', "refuses the key (status 400)"),
        (401, '{"error": {"message": "Missing scopes: api.model.read"}}', ""),
        (403, "not for you", ""),
        (404, "a server of one's own need not know the question", ""),
        (500, "", ""),
    ],
)
def test_only_what_is_sure_stops_a_run(tmp_path: Path, status: int, body: str, said: str) -> None:
    cell = cell_of(tmp_path, models=LIVE)
    with answering(status, body) as address:
        environment = {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": address}
        if said:
            assert said in str(faults(cell, None, **environment))
        else:
            require_ready([cell], open_sandbox("process"), None, environment=environment)


@contextlib.contextmanager
def answering(status: int, body: str) -> Iterator[str]:
    """A provider that answers every GET in one way; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/v1/models/gpt-4o-mini" and self.headers["Authorization"] == "Bearer sk-x"
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class calls it so
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()


def test_a_limit_in_dollars_needs_a_price(tmp_path: Path) -> None:
    cell, sandbox = cell_of(tmp_path, models={"main": "openai/no-such-model-7"}), open_sandbox("process")
    with ScriptedUpstream([]) as upstream:
        environment = upstream.environment()
        require_ready([cell], sandbox, None, cost_limited=False, environment=environment)
        with pytest.raises(NotReady, match="has no price"):
            require_ready([cell], sandbox, None, environment=environment)
        limits = RunLimits(cost_usd=1)
        with pytest.raises(NotReady, match="has no price"):
            require_ready([cell], sandbox, None, cost_limited=False, run_limits=limits, environment=environment)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"command": ["python", "{agent}/other.py"]}, "'other.py' does not exist"),
        ({"command": ["{agent}/main.py"]}, "'main.py' may not be executed"),
        ({"command": ["no-such-program-7"]}, "'no-such-program-7' is not on this machine"),
        ({"environment": {"python": "3.99"}}, "no Python 3.99"),
    ],
)
def test_what_the_command_names_must_be_there(tmp_path: Path, facts: dict[str, Any], said: str) -> None:
    assert said in str(faults(cell_of(tmp_path, **facts)))


def test_a_plan_knows_only_the_agent_s_files(tmp_path: Path) -> None:
    require_files([cell_of(tmp_path / "a", models=LIVE, command=["no-such-program-7"])])
    with pytest.raises(NotReady, match="does not exist"):
        require_files([cell_of(tmp_path / "b", command=["python", "{agent}/other.py"])])


# --- the commands ----------------------------------------------------------------------------------------------------


def test_a_run_that_cannot_start_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    asked: list[str | Path] = [
        "run",
        "--agent",
        "react",
        "--case",
        "hello_world",
        "--sandbox",
        "process",
        "--out",
        tmp_path / "runs",
    ]
    for more in ([], ["--check"]):
        done = mldb(*asked, "--model", "openai/gpt-4o-mini", *more)
        assert done.returncode == 2 and done.stderr.count("error: ") == 1
        assert "needs OPENAI_API_KEY, which is not set" in done.stderr
    done = mldb(*asked, "--check")
    assert (done.returncode, done.stdout) == (0, "ready: nothing is missing for 1 cell\n"), done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_shard_that_cannot_start_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    asked = ["plan", "agents=react", "suites=smoke", "cases=hello_world", "trials=1", "models=openai/gpt-4o-mini"]
    plan = tmp_path / "plan.json"
    # The machine that plans need not have the keys.
    done = mldb(*asked, "--out", plan, "--no-seed-secret", "--sandbox", "process")
    assert done.returncode == 0, done.stderr
    commands: list[list[str | Path]] = [
        [*asked, "--check", "--sandbox", "process"],
        ["run-shard", plan, "cpu-001", "--sandbox", "process", "--out", tmp_path / "runs"],
        ["run-shard", plan, "cpu-001", "--sandbox", "process", "--out", tmp_path / "runs", "--check"],
    ]
    for command in commands:
        done = mldb(*command)
        assert done.returncode == 2 and "needs OPENAI_API_KEY, which is not set" in done.stderr, done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.nightly
@pytest.mark.slow
def test_the_key_of_a_model_that_litellm_serves_is_named(tmp_path: Path) -> None:
    """litellm itself is asked which variable it would look for, in a process without ours."""
    pytest.importorskip("litellm")
    cell = cell_of(tmp_path, models={"main": "groq/some-model"})
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with pytest.raises(NotReady, match="needs GROQ_API_KEY, which is not set") as caught:
        require_ready([cell], open_sandbox("process"), None, cost_limited=False, environment=environment)
    assert caught.value.variables == ["GROQ_API_KEY"]
    require_ready(
        [cell], open_sandbox("process"), None, cost_limited=False, environment={**environment, "GROQ_API_KEY": "x"}
    )
