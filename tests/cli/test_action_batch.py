"""What a job of AWS Batch does besides running cells: it refuses rights, and ends what it has started."""

from __future__ import annotations

import http.server
import os
import threading
import time
from pathlib import Path

import pytest

from bench.base.errors import UserError
from bench.cli.action_batch import _refuse_credentials, _refuse_metadata, run_runner

SEEN = 'env | sort > env; echo "$$" > pid\n'


def _runner(folder: Path, script: str) -> Path:
    folder.mkdir()
    (folder / "run.sh").write_text(f"#!/bin/sh\n{SEEN}{script}\n", encoding="utf-8")
    (folder / "run.sh").chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("script", "expires_s", "idle_s", "status"),
    [
        ("exit 3", 600, 600, 3),
        ("exec sleep 600", 0, 600, 1),
        ("exec sleep 600", 600, 0, 1),
        # A runner that has its job is not idle.
        ("mkdir _diag; touch _diag/Worker_1.log; sleep 1", 600, 0.5, 0),
    ],
    ids=["its own end", "the lease", "no job", "a job"],
)
def test_a_runner_ends_with_its_job_its_lease_or_without_a_job(
    script: str, expires_s: float, idle_s: float, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/role")
    folder = _runner(tmp_path / "runner", script)
    assert run_runner(folder, "Y29uZmln", time.time() + expires_s, idle_s, poll_s=0.2) == status
    if (folder / "env").exists():
        told = (folder / "env").read_text(encoding="utf-8")
        assert "ACTIONS_RUNNER_INPUT_JITCONFIG=Y29uZmln" in told and "AWS_" not in told
    if (folder / "pid").exists() and (pid := (folder / "pid").read_text().strip()):
        assert not os.path.exists(f"/proc/{pid}")


def test_a_job_refuses_a_credential_of_github_and_a_metadata_service_that_answers() -> None:
    _refuse_credentials({"MLDB_SHARD": "a"})
    with pytest.raises(UserError, match=r"GITHUB_TOKEN: .* without any credential"):
        _refuse_credentials({"GITHUB_TOKEN": "x"})

    class Metadata(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *rest: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Metadata) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(UserError, match="hop limit of 1"):
            _refuse_metadata(("127.0.0.1", server.server_port))
        server.shutdown()
    _refuse_metadata(("127.0.0.1", server.server_port))
