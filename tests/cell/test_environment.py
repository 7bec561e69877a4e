"""Environments of agents: found interpreters, built once, and both Pythons in the sandbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from uv import find_uv_bin

from bench.base.errors import InfraError, UserError
from bench.cell.environment import agent_python, find_interpreter
from bench.cell.run import run_cell
from bench.formats.agent import Agent, load_agent
from bench.sandbox.job import Sandbox
from tests.helpers.cells import ROOT, make_agent, make_case, make_cell, make_context, write_files
from tests.helpers.wheels import make_wheel

OTHER = "3.12" if sys.version_info[:2] != (3, 12) else "3.13"
"""A version that does not run the tests."""
WHERE = Path("agent.yaml")
BUILD = (
    "import sys; from pathlib import Path; from bench.formats.agent import load_agent; "
    "from bench.cell.environment import agent_python; "
    "print(agent_python(load_agent(Path(sys.argv[1])), Path(sys.argv[2])))"
)


def have(version: str) -> Path:
    """The installation of a version, or the test is skipped."""
    try:
        return find_interpreter(version, WHERE).path
    except UserError:
        pytest.skip(f"no Python {version} on this machine")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], int]:
    """pip without an index, and a count of its installations."""
    log = tmp_path / "pip.log"
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_LOG", str(log))
    return lambda: log.read_text().count("Successfully installed tinything") if log.exists() else 0


def tiny_agent(root: Path, script: str = "", **environment: object) -> Agent:
    wheel = make_wheel(root / "tester")
    write_files(root / "tester", {"requirements.txt": f"./{wheel}\n"})
    return make_agent(root, script, environment={"requirements": "requirements.txt", **environment})


def imports(python: Path, name: str) -> bool:
    return subprocess.run([str(python), "-c", f"import {name}"], capture_output=True, check=False).returncode == 0


# --- built once ---------------------------------------------------------------------------------------------------


def test_no_wish_is_the_benchmarks_own_interpreter(tmp_path: Path) -> None:
    assert agent_python(make_agent(tmp_path, ""), tmp_path / "cache") == Path(sys.executable)
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
def test_many_at_once_build_once(tmp_path: Path, offline: Callable[[], int]) -> None:
    agent, cache = tiny_agent(tmp_path), tmp_path / "cache"
    command = [sys.executable, "-c", BUILD, str(agent.folder), str(cache)]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(2)]
    with ThreadPoolExecutor(3) as pool:
        found = set(pool.map(lambda _: str(agent_python(agent, cache)), range(3)))
    found |= {other.communicate(timeout=300)[0].strip() for other in others}
    (python,) = found
    assert imports(Path(python), "tinything")
    assert offline() == 1


@pytest.mark.slow
def test_the_content_decides_what_is_built(tmp_path: Path, offline: Callable[[], int]) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "tester"
    first = agent_python(tiny_agent(tmp_path), cache)
    (folder / "main.py").write_text("x = 1")
    wheel = (folder / "requirements.txt").read_text()
    write_files(folder, {"requirements.txt": "-r more.txt\n", "more.txt": wheel})
    second = agent_python(load_agent(folder), cache)
    (folder / "more.txt").write_text(wheel + "# other\n")
    third = agent_python(load_agent(folder), cache)
    assert len({first, second, third}) == 3
    assert agent_python(load_agent(folder), cache) == third
    assert offline() == 3
    (folder / "more.txt").unlink()
    with pytest.raises(UserError, match=r"more\.txt: cannot be read"):
        agent_python(load_agent(folder), cache)


@pytest.mark.slow
def test_half_built_and_broken_ones_are_built_again(tmp_path: Path, offline: Callable[[], int]) -> None:
    agent, cache = tiny_agent(tmp_path), tmp_path / "cache"
    python = agent_python(agent, cache)
    (python.parent.parent / "complete").unlink()
    (python.parent.parent / "rubbish").touch()
    assert agent_python(agent, cache) == python
    assert not (python.parent.parent / "rubbish").exists()
    python.unlink()
    python.symlink_to("/no/such/python")
    assert imports(agent_python(agent, cache), "tinything")
    assert offline() == 3


@pytest.mark.slow
def test_a_lock_file_of_packages_installs_nothing_else(tmp_path: Path, offline: Callable[[], int]) -> None:
    requires = "Requires-Dist: no-such-package-anywhere\n"
    wheel = make_wheel(tmp_path / "tester", requires=requires)
    write_files(tmp_path / "tester", {"requirements.txt": f"./{wheel}\n"})
    loose = make_agent(tmp_path, "", environment={"requirements": "requirements.txt"})
    with pytest.raises(InfraError, match=r"agent tester could not be built.*no-such-package-anywhere") as raised:
        agent_python(loose, tmp_path / "cache")
    assert raised.value.cause == "environment_error"
    assert not [path for path in (tmp_path / "cache" / "environments").iterdir() if path.is_dir()]
    locked = make_agent(tmp_path, "", environment={"requirements": "requirements.txt", "locked": True})
    assert imports(agent_python(locked, tmp_path / "cache"), "tinything")


BACKEND = """
import json, os, zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    info = "tinything-1.0.dist-info"
    files = {
        "tinything.py": "SEEN = " + repr(sorted(os.environ)),
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: tinything\\nVersion: 1.0\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        f"{info}/RECORD": "",
    }
    name = "tinything-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return name
"""
PROJECT = (
    '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    '[project]\nname = "tinything"\nversion = "1.0"\n'
)


@pytest.mark.slow
def test_build_scripts_of_packages_see_no_key(
    tmp_path: Path, offline: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_PROVIDER_API_KEY", "sk-canary")
    monkeypatch.setenv("GITHUB_TOKEN", "canary")
    files = {"pkg/backend.py": BACKEND, "pkg/pyproject.toml": PROJECT, "requirements.txt": "./pkg\n"}
    write_files(tmp_path / "tester", files)
    agent = make_agent(tmp_path, "", environment={"requirements": "requirements.txt"})
    python = agent_python(agent, tmp_path / "cache")
    code = "import json, tinything; print(json.dumps(tinything.SEEN))"
    seen = json.loads(subprocess.run([str(python), "-c", code], capture_output=True, check=True).stdout)
    assert "PATH" in seen
    assert not {"SOME_PROVIDER_API_KEY", "GITHUB_TOKEN"} & set(seen)
    (tmp_path / "tester" / "pkg" / "backend.py").write_text(BACKEND + "# changed\n")
    assert agent_python(load_agent(agent.folder), tmp_path / "cache") != python, "local packages count"


SLOW = """
import time

def note(word):
    with open(LOG, "a") as file:
        file.write(word + "\\n")

quick_build_wheel = build_wheel

def build_wheel(*arguments, **named):
    note("begin")
    time.sleep(2)
    made = quick_build_wheel(*arguments, **named)
    note("end")
    return made
"""


@pytest.mark.slow
def test_after_a_kill_nobody_builds_beside_the_orphan(tmp_path: Path, offline: Callable[[], int]) -> None:
    log = tmp_path / "order"
    files = {"pkg/backend.py": f"LOG = {str(log)!r}\n{BACKEND}{SLOW}", "pkg/pyproject.toml": PROJECT}
    write_files(tmp_path / "tester", {**files, "requirements.txt": "./pkg\n"})
    agent = make_agent(tmp_path, "", environment={"requirements": "requirements.txt"})
    first = subprocess.Popen([sys.executable, "-c", BUILD, str(agent.folder), str(tmp_path / "cache")], cwd=ROOT)
    until = time.monotonic() + 120
    while not log.exists() and time.monotonic() < until:
        time.sleep(0.05)
    first.kill()
    first.wait()
    assert imports(agent_python(agent, tmp_path / "cache"), "tinything")
    assert log.read_text().split() == ["begin", "end", "begin", "end"]


# --- found interpreters -------------------------------------------------------------------------------------------


def bare_path(folder: Path, **links: Path) -> str:
    """A PATH of one folder with these programs."""
    folder.mkdir(exist_ok=True)
    for name, target in links.items():
        (folder / name).symlink_to(target)
    return str(folder)


def test_a_python_on_path_is_found_and_shims_are_seen_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = have(OTHER)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "none"))
    shim = write_files(tmp_path / "bin", {f"python{OTHER}": f'#!/bin/sh\nexec {real} "$@"\n'}) / f"python{OTHER}"
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = find_interpreter(OTHER, WHERE)
    assert found.path == real
    assert found.version.startswith(f"{OTHER}.")


def test_pyenvs_versions_are_found_without_its_shims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = have(OTHER)
    versions = tmp_path / "pyenv" / "versions"
    for name in (f"{OTHER}.0", f"{OTHER}.1", OTHER + "0.1"):
        (versions / name).mkdir(parents=True)
    (versions / f"{OTHER}.0" / "bin").symlink_to(real.parent)
    write_files(tmp_path / "pyenv" / "shims", {f"python{OTHER}": "#!/bin/sh\nexit 127\n"})
    (tmp_path / "pyenv" / "shims" / f"python{OTHER}").chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("PATH", str(tmp_path / "pyenv" / "shims"))
    assert find_interpreter(OTHER, WHERE).path == real


def test_uvs_own_pythons_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = have(OTHER)
    version = find_interpreter(OTHER, WHERE).version
    place = tmp_path / "uv" / f"cpython-{version}-linux-{os.uname().machine}-gnu"
    # uv passes over an installation that is a link as a whole.
    (place / "bin").mkdir(parents=True)
    for entry in real.parent.parent.iterdir():
        if entry.name != "bin":
            (place / entry.name).symlink_to(entry)
    for name in ("python", f"python{OTHER}"):
        (place / "bin" / name).symlink_to(real)
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(place.parent))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", bare_path(tmp_path / "bin", uv=Path(find_uv_bin())))
    assert find_interpreter(OTHER, WHERE).path == real


def test_a_full_version_is_not_taken_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = ".".join(map(str, sys.version_info[:3]))
    assert find_interpreter(mine, WHERE).version == mine
    with pytest.raises(UserError, match=r"no Python 3\.11\.99"):
        find_interpreter("3.11.99", WHERE)


def test_a_missing_one_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    agent = make_agent(tmp_path, "", environment={"python": "3.99"})
    with pytest.raises(UserError) as raised:
        agent_python(agent, tmp_path / "cache")
    text = str(raised.value)
    assert text == (
        f"{agent.folder}/agent.yaml: field `environment.python`: no Python 3.99 on PATH, with uv or with pyenv "
        "(`uv python install 3.99` or `pyenv install 3.99`)"
    )


def test_a_run_that_wants_a_missing_python_does_not_start(tmp_path: Path) -> None:
    agent = make_agent(tmp_path, "", environment={"python": "3.99"})
    command = [sys.executable, "-m", "bench", "run", "--agent", str(agent.folder), "--case", "hello_world"]
    command += ["--out", str(tmp_path / "runs"), "--sandbox", "process"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "uv python install 3.99" in done.stderr


def test_a_version_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"environment\.python"):
        make_agent(tmp_path, "", environment={"python": "../3"})


# --- in the sandbox -----------------------------------------------------------------------------------------------

LOOK = """
import json, os, subprocess, sys
import tinything

def say(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or done.stderr.strip()[-300:]

ask = "import sys, numpy; print(sys.version_info[:2], sys.prefix)"
found = {
    "mine": [list(sys.version_info[:2]), sys.prefix, tinything.WORD],
    "python": say("python", "-c", ask),
    "variable": say(os.environ["BENCH_PYTHON"], "-c", ask),
    "agents": say(os.environ["BENCH_AGENT_PYTHON"], "-c", "import tinything; print(tinything.WORD)"),
    "leak": say("python", "-c", "import tinything"),
    "program": say("tinything-program"),
    "which": say("sh", "-c", "command -v python3"),
    "set": [os.environ.get("LOOK_HERE"), os.environ["BENCH_TASK_FILE"] != "mine"],
}
open("answer.py", "w").write("def double(x):\\n    return 2 * x\\n")
json.dump(found, open(os.path.join(os.environ["BENCH_OUT_DIR"], "found.json"), "w"))
"""


@pytest.mark.slow
def test_an_agent_has_its_own_python_and_its_commands_the_cases(
    tmp_path: Path, sandbox: Sandbox, offline: Callable[[], int]
) -> None:
    have(OTHER)
    variables = {"LOOK_HERE": "{agent}/main.py", "BENCH_TASK_FILE": "mine"}
    agent = tiny_agent(tmp_path, LOOK, python=OTHER, variables=variables)
    cell, context = make_cell(agent, make_case(tmp_path / "cases")), make_context(tmp_path, sandbox)
    record = run_cell(cell, context)
    assert record.success, record
    found = json.loads((context.trace(cell) / "out" / "found.json").read_text())
    version, prefix, word = found["mine"]
    assert version == [int(part) for part in OTHER.split(".")]
    assert prefix.startswith(str(context.folders.cache))
    # The image has an interpreter of its own, Python 3.11.
    cases = "(3, 11) /opt/bench" if sandbox.name == "docker" else f"{tuple(sys.version_info[:2])} {sys.prefix}"
    assert found["python"] == cases == found["variable"]
    assert word == found["agents"] == "from the agent"
    assert "No module named 'tinything'" in found["leak"]
    assert found["program"] == "program of the agent"
    assert not found["which"].startswith(str(context.folders.cache))
    folder = "/agent" if sandbox.isolated else str(agent.folder)
    assert found["set"] == [f"{folder}/main.py", True]


@pytest.mark.slow
def test_the_command_may_be_a_program_of_its_packages(
    tmp_path: Path, bubblewrap: Sandbox, offline: Callable[[], int]
) -> None:
    tiny_agent(tmp_path)
    environment = {"requirements": "requirements.txt"}
    agent = make_agent(tmp_path, "", environment=environment, command=["tinything-program"])
    cell, context = make_cell(agent, make_case(tmp_path / "cases")), make_context(tmp_path, bubblewrap)
    record = run_cell(cell, context)
    assert (record.outcome, record.stop_reason) == ("graded", "finished")
    assert (context.trace(cell) / "agent.log").read_text() == "program of the agent\n"
