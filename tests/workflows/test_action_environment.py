"""The environment in which the Action works: what is installed into it, and what never is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.action_locks import LOCKS, find_faults, torch_hashes, wanted_extras
from tests.workflows.rehearsal.runner import Runner
from tests.workflows.rehearsal.stage import ROOT

PREPARE = ROOT / ".github" / "actions" / "prepare.py"
PREPARED = {"MLDB_EXTRAS": "", "MLDB_PYTHON_ENVIRONMENT": "", "MLDB_SANDBOX": "auto"}


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def prepare(runner: Runner, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return runner.start([sys.executable, "-I", str(PREPARE), *arguments], {**PREPARED, **variables})


def made_environment(runner: Runner, *locks: str, script: str = "") -> Path:
    """An environment that an earlier step has made: its interpreter is a script."""
    place = runner.folder / "temp" / "ml-dev-bench" / "environment"
    (place / "bin").mkdir(parents=True)
    asked = prepare(runner, "cache").returncode
    assert asked == 0
    core = runner.outputs()["key"].rsplit("-", 1)[1]
    (place / "complete").write_text("\n".join([f"{ROOT} {sys.executable} {core}", *locks, ""]), encoding="utf-8")
    (place / "bin" / "python").write_text(f'#!/bin/sh\necho "$@" >> {runner.folder}/asked\n{script}', encoding="utf-8")
    (place / "bin" / "python").chmod(0o755)
    return place


def test_the_environment_is_refused_where_there_is_none(runner: Runner) -> None:
    done = prepare(runner, MLDB_PYTHON_ENVIRONMENT=str(runner.folder))
    assert done.returncode == 2
    assert "is not a virtual environment" in done.stdout
    assert not (runner.folder / "output").exists()


def test_what_agents_and_cases_need_is_installed_and_nothing_else(runner: Runner) -> None:
    made_environment(runner, "gateway", "ml", "site", "torch-cpu", "torch-gpu", script="echo gateway,ml,site\n")
    done = prepare(runner)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (runner.folder / "asked").read_text(encoding="utf-8") == "-I -m bench action extras\n"
    refused = prepare(runner, MLDB_EXTRAS="ml,no-such-extra")
    assert refused.returncode == 2 and "extras: 'no-such-extra' is not an extra" in refused.stdout


def test_a_mistake_in_the_inputs_is_told_before_anything_is_installed(runner: Runner) -> None:
    made_environment(runner, script="echo '::error::no suite'; exit 2\n")
    done = prepare(runner)
    assert (done.returncode, done.stdout) == (2, "::error::no suite\n")


def test_a_cache_holds_only_wheels_that_the_lock_names(runner: Runner) -> None:
    """What another job has written into the store is never installed, however it is called."""
    tools = runner.folder / "tools"
    tools.mkdir()
    assert prepare(runner, "cache", RUNNER_TOOL_CACHE=str(tools)).returncode == 0
    folder = Path(runner.outputs()["path"])
    assert folder.is_relative_to(tools)
    folder.mkdir(parents=True)
    (folder / "uv-99.0-py3-none-any.whl").write_bytes(b"not of the lock")
    (folder / "folder").mkdir()
    (folder / "link").symlink_to(runner.folder)
    # No index answers, so nothing can take its place.
    nowhere = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tools), "PIP_CONFIG_FILE": os.devnull}
    done = prepare(runner, RUNNER_TOOL_CACHE=str(tools), **nowhere)
    assert done.returncode == 2 and "::error title=ml-dev-bench::" in done.stdout
    assert list(folder.iterdir()) == []


def test_a_prepared_environment_runs_this_revision(runner: Runner) -> None:
    """Its own copy of the benchmark, an older one perhaps, is not the one that runs; and it is left as it was."""
    prepared = runner.folder / "prepared"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(prepared)], check=True)
    packages = next((prepared / "lib").glob("python3*")) / "site-packages"
    (packages / "bench").mkdir()
    (packages / "bench" / "__init__.py").write_text("__file__ = 'the old one'\n", encoding="utf-8")
    done = prepare(runner, MLDB_PYTHON_ENVIRONMENT=str(prepared), MLDB_SANDBOX="process")
    assert done.returncode == 0, done.stdout + done.stderr
    command = [runner.outputs()["python"], "-I", "-c", "import bench, sys; print(bench.__file__, sys.prefix)"]
    found, prefix = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert (found, prefix != str(prepared)) == (str(ROOT / "bench" / "__init__.py"), True)
    assert (packages / "bench" / "__init__.py").is_file()


def test_the_docker_sandbox_brings_the_library_for_its_image(runner: Runner) -> None:
    made_environment(runner, "docker", "site")
    done = prepare(runner, MLDB_EXTRAS="site", MLDB_SANDBOX="docker")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (runner.folder / "asked").read_text(encoding="utf-8") == "-I -m bench image show\n"


def test_only_a_hosted_machine_is_changed(runner: Runner) -> None:
    """`sudo` is a stand-in here: changing the kernel's settings is nothing a test may do."""
    place = made_environment(runner, "site")
    programs = runner.folder / "bin"
    programs.mkdir()
    (programs / "sudo").write_text(f'#!/bin/sh\necho "$@" >> {runner.folder}/sudo\n', encoding="utf-8")
    (programs / "sudo").chmod(0o755)
    base = {"MLDB_EXTRAS": "site", "PATH": str(programs)}
    for environment, sandbox in (("self-hosted", "auto"), ("github-hosted", "process")):
        done = prepare(runner, **base, RUNNER_ENVIRONMENT=environment, MLDB_SANDBOX=sandbox)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not (runner.folder / "sudo").exists()
    done = prepare(runner, **base, RUNNER_ENVIRONMENT="github-hosted", MLDB_SANDBOX="auto")
    assert done.returncode == 0, done.stdout + done.stderr
    asked = (runner.folder / "sudo").read_text(encoding="utf-8").splitlines()
    assert asked[:2] == [
        "apt-get update --quiet",
        "apt-get install --quiet --yes --no-install-recommends bubblewrap",
    ]
    assert runner.outputs()["python"] == str(place / "bin" / "python")


# --- the locks -------------------------------------------------------------------------------------------------------


def test_the_locks_fit_what_the_project_asks_for(tmp_path: Path) -> None:
    assert find_faults(LOCKS, wanted_extras()) == []
    assert {"core", "docker", "gateway", "ml"} <= set(wanted_extras())
    for lock in LOCKS.glob("*.txt"):
        shutil.copy(lock, tmp_path)
    (tmp_path / "docker.txt").write_text("docker==6.0\n", encoding="utf-8")
    faults = find_faults(tmp_path, {**wanted_extras(), "new": ["something>=1"]})
    assert faults == [
        "docker.txt: docker>=7.0 is wanted, locked is 6.0",
        "new.txt is missing",
        "docker.txt: no hash for docker",
    ]


def test_the_hashes_of_pytorch_s_builds_are_read_from_its_index() -> None:
    digest = {name: name * 32 for name in ("aa", "bb", "cc", "dd")}
    page = "".join(
        f'<a href="/whl/cpu/torch-{name}.whl#sha256={digest[key]}">torch</a><br/>\n'
        for key, name in {
            "aa": "2.13.0%2Bcpu-cp311-cp311-manylinux_2_28_x86_64",
            "bb": "2.13.0%2Bcpu-cp311-cp311-win_amd64",
            "cc": "2.13.0%2Bcpu-cp312-cp312-manylinux_2_28_aarch64",
            "dd": "2.13.01%2Bcpu-cp312-cp312-manylinux_2_28_x86_64",
        }.items()
    )
    assert torch_hashes(page, "2.13.0") == [digest["aa"], digest["cc"]]
