"""The wheel works alone: in an empty environment, outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.formats.suite import load_suite

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GITHUB_"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**clean, **env},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.nightly
@pytest.mark.slow
def test_wheel_lists_and_runs_without_the_checkout(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, ROOT, cwd=tmp_path)
    (wheel,) = wheels.glob("ml_dev_bench-*.whl")
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", venv, cwd=tmp_path)
    run(venv / "bin" / "python", "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)

    program = venv / "bin" / "ml-dev-bench"
    listed = run(program, "cases", "list", cwd=tmp_path)
    assert {line.split()[1] for line in listed.splitlines()} == {
        path.parent.name for path in (ROOT / "cases").glob("*/*/case.yaml")
    }
    (tmp_path / "mine").mkdir()
    run(program, "cases", "new", "debugging/my_case", "--cases", tmp_path / "mine", cwd=tmp_path)
    (tmp_path / "more").mkdir()
    like = ("--like", "tabular", "--cases", tmp_path / "more")
    assert "made " in run(program, "cases", "new", "tabular/table", *like, cwd=tmp_path)
    assert (tmp_path / "more" / "tabular" / "table" / "case.yaml").is_file()
    assert "1 case, " in run(
        program, "cases", "verify", "my_case", "--sandbox", "process", "--cases", tmp_path / "mine", cwd=tmp_path
    )
    cache = str(tmp_path / "cache")
    arguments = ("run", "--agent", "oracle", "--agent", "nop", "--case", "hello_world")
    told = run(program, *arguments, cwd=tmp_path, ML_DEV_BENCH_CACHE=cache)
    assert "1 of 2 graded cells succeeded" in told
    planned = run(program, "plan", "paper/react-gpt-4o", "--no-seed-secret", cwd=tmp_path)
    assert planned.startswith(f"{len(load_suite(ROOT / 'cases', 'ml-dev-bench').cases)} cells in ")
    assert "ml-dev-bench" in run(venv / "bin" / "mldb", "--version", cwd=tmp_path)


@pytest.mark.slow
def test_wheel_holds_the_data_and_no_rubbish(tmp_path: Path) -> None:
    import zipfile

    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("ml_dev_bench-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"bench", *(top for top in tops if top.endswith(".dist-info"))}
    assert "bench/data/cases/basics/hello_world/case.yaml" in names
    assert "bench/data/agents/react/agent.yaml" in names
    assert {"bench/data/caller/mldb-agent.yml", "bench/data/caller/workflows/mldb-smoke.yml"} <= set(names)
    paper = {path.relative_to(ROOT).as_posix() for path in (ROOT / "cases" / "suites").rglob("*.yaml")}
    assert sum("/paper/" in path for path in paper) == 16
    assert {f"bench/data/{path}" for path in paper} <= set(names)
    templates = ROOT / "cases" / "_template"
    parts = [path.relative_to(templates).as_posix() for path in templates.rglob("*") if path.is_file()]
    shipped = {name.removeprefix("bench/data/cases/_template/") for name in names}
    assert [part for part in parts if part not in shipped and "__pycache__" not in part] == []
    assert any(name.startswith("bench/data/site/templates/") for name in names)
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]
