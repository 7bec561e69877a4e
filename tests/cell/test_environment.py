"""Environments of agents: found interpreters, built once, and both Pythons in the sandbox."""

from __future__ import annotations

import base64
import http.server
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from uv import find_uv_bin

from bench.base.errors import InfraError, UserError
from bench.cell.context import CellContext
from bench.cell.environment import agent_python, make_harmless
from bench.cell.interpreter import find_interpreter
from bench.cell.package_index import package_sources
from bench.cell.run import run_cell
from bench.formats.agent import Agent, load_agent
from bench.guest.trees import remove_tree
from bench.sandbox.job import Sandbox
from tests.helpers.cells import (
    ROOT,
    make_agent,
    make_case,
    make_cell,
    make_context,
    new_token,
    processes_with,
    wait_until_gone,
    write_files,
)
from tests.helpers.sampling import at_night, on_push
from tests.helpers.wheels import make_wheel

OTHER = "3.12" if sys.version_info[:2] != (3, 12) else "3.13"
"""A version that does not run the tests."""
WHERE = Path("agent.yaml")
BUILD = """
import sys
from pathlib import Path
from bench.cell.environment import agent_python
from bench.formats.agent import load_agent
from bench.sandbox.choose import open_sandbox
from tests.helpers.cells import make_context
print(agent_python(load_agent(Path(sys.argv[1])), make_context(Path(sys.argv[2]), open_sandbox(sys.argv[3]))))
"""


def have(version: str) -> Path:
    """The installation of a version, or the test is skipped."""
    try:
        return find_interpreter(version, WHERE).path
    except UserError:
        pytest.skip(f"no Python {version} on this machine")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip without an index, whatever this machine has."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")) and name != "PIP_CERT":
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")


@pytest.fixture
def context(tmp_path: Path, bubblewrap: Sandbox) -> CellContext:
    return make_context(tmp_path, bubblewrap)


def built(context: CellContext) -> dict[str, int]:
    """When each environment in the cache was built, in nanoseconds."""
    return {path.name: path.stat().st_mtime_ns for path in (context.folders.cache / "environments").glob("*.json")}


def tiny_agent(root: Path, script: str = "", **environment: object) -> Agent:
    wheel = make_wheel(root / "tester")
    write_files(root / "tester", {"requirements.txt": f"./{wheel}\n"})
    return make_agent(root, script, environment={"requirements": "requirements.txt", **environment})


def imports(python: Path, name: str) -> bool:
    return subprocess.run([str(python), "-c", f"import {name}"], capture_output=True, check=False).returncode == 0


# --- built once ---------------------------------------------------------------------------------------------------


def test_no_wish_is_the_benchmarks_own_interpreter(tmp_path: Path, context: CellContext) -> None:
    assert agent_python(make_agent(tmp_path, ""), context) == Path(sys.executable)
    assert not (tmp_path / "cache").exists()


@pytest.mark.nightly
@pytest.mark.slow
def test_many_at_once_build_once(tmp_path: Path, context: CellContext) -> None:
    agent = tiny_agent(tmp_path)
    command = [sys.executable, "-c", BUILD, str(agent.folder), str(tmp_path), "bubblewrap"]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(2)]
    with ThreadPoolExecutor(3) as pool:
        found = set(pool.map(lambda _: str(agent_python(agent, context)), range(3)))
    found |= {other.communicate(timeout=300)[0].strip() for other in others}
    (python,) = found
    assert imports(Path(python), "tinything")
    before = built(context)
    agent_python(load_agent(agent.folder), context)
    assert built(context) == before and len(before) == 1


@pytest.mark.slow
def test_the_content_decides_what_is_built(tmp_path: Path, context: CellContext) -> None:
    folder = tmp_path / "tester"
    first = agent_python(tiny_agent(tmp_path), context)
    wheel = (folder / "requirements.txt").read_text()
    write_files(folder, {"requirements.txt": "-r more/more.txt\n", "more/more.txt": wheel})
    second = agent_python(load_agent(folder), context)
    (folder / "more" / "more.txt").write_text(wheel + "# other\n")
    third = agent_python(load_agent(folder), context)
    assert len({first, second, third}) == 3
    assert agent_python(load_agent(folder), context) == third
    assert len(built(context)) == 3
    (folder / "more" / "more.txt").unlink()
    with pytest.raises(UserError, match=r"'more/more\.txt' is not one of the agent's files"):
        agent_python(load_agent(folder), context)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "./wheels/{wheel}\n",
        at_night("--find-links wheels\ntinything\n"),
        at_night("tinything @ file:///agent/wheels/{wheel}"),
    ],
)
def test_what_installs_from_the_folder_counts_the_folder(tmp_path: Path, context: CellContext, line: str) -> None:
    """Else another agent of this id could have left its own package under the same key."""
    agent = make_agent(tmp_path, "")
    wheel = make_wheel(agent.folder / "wheels")
    write_files(agent.folder, {"requirements.txt": line.format(wheel=wheel)})
    make_agent(tmp_path, "", environment={"requirements": "requirements.txt"})
    first = agent_python(load_agent(agent.folder), context)
    make_wheel(agent.folder / "wheels", requires="Summary: another\n")
    assert agent_python(load_agent(agent.folder), context) != first


@pytest.mark.nightly
@pytest.mark.slow
def test_without_a_name_of_a_file_only_the_requirements_count(
    tmp_path: Path, context: CellContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(tmp_path / "wheels")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    text = "# what it needs\ntinything[some] >= 1.0, <2 ; python_version > '3.0'  # this\n--pre\n"
    write_files(tmp_path / "tester", {"requirements.txt": text})
    agent = make_agent(tmp_path, "first", environment={"requirements": "requirements.txt"})
    python = agent_python(agent, context)
    assert imports(python, "tinything")
    other = make_agent(tmp_path, "other", environment={"requirements": "requirements.txt"})
    assert other.digest != agent.digest and agent_python(other, context) == python


@pytest.mark.slow
@pytest.mark.nightly
def test_an_environment_may_be_a_python_alone(tmp_path: Path, context: CellContext) -> None:
    base = have(OTHER)
    python = agent_python(make_agent(tmp_path, "", environment={"python": OTHER}), context)
    assert python.resolve() == base and imports(python, "pip")


@pytest.mark.nightly
@pytest.mark.slow
def test_half_built_and_broken_ones_are_built_again(tmp_path: Path, context: CellContext) -> None:
    agent = tiny_agent(tmp_path)
    python = agent_python(agent, context)
    place = python.parent.parent
    place.with_name(f"{place.name}.json").unlink()
    (place / "rubbish").touch()
    assert agent_python(agent, context) == python
    assert not (place / "rubbish").exists()
    python.unlink()
    python.symlink_to("/no/such/python")
    assert imports(agent_python(agent, context), "tinything")
    assert sorted(path.name for path in place.parent.iterdir()) == sorted(
        [place.name, f".{place.name}.lock", f"{place.name}.json"]
    )


@pytest.mark.nightly
@pytest.mark.slow
def test_a_lock_file_of_packages_installs_nothing_else(tmp_path: Path, context: CellContext) -> None:
    requires = "Requires-Dist: no-such-package-anywhere\n"
    wheel = make_wheel(tmp_path / "tester", requires=requires)
    write_files(tmp_path / "tester", {"requirements.txt": f"./{wheel}\n"})
    loose = make_agent(tmp_path, "", environment={"requirements": "requirements.txt"})
    with pytest.raises(InfraError, match=r"agent tester could not be built.*no-such-package-anywhere") as raised:
        agent_python(loose, context)
    assert raised.value.cause == "environment_error"
    assert not [path for path in (tmp_path / "cache" / "environments").iterdir() if path.is_dir()]
    locked = make_agent(tmp_path, "", environment={"requirements": "requirements.txt", "locked": True})
    assert imports(agent_python(locked, context), "tinything")


@pytest.mark.parametrize("name", ["/etc/passwd", "../other.txt", "link.txt", "folder/link.txt"])
@pytest.mark.parametrize("how", ["-r {}", "-c{}", "--requirement={}", "--constraint {}"])
def test_files_outside_the_folder_are_not_read(tmp_path: Path, context: CellContext, name: str, how: str) -> None:
    write_files(tmp_path, {"other.txt": "x", "tester/requirements.txt": how.format(name) + "\n", "tester/folder/x": ""})
    for link in ("link.txt", "folder/link.txt"):
        (tmp_path / "tester" / link).symlink_to(tmp_path / "other.txt")
    agent = make_agent(tmp_path, "", environment={"requirements": "requirements.txt"})
    with pytest.raises(UserError, match="is not one of the agent's files"):
        agent_python(agent, context)


# --- by build scripts of strangers ---------------------------------------------------------------------------------

BACKEND = """
import json, os, zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    info = "tinything-1.0.dist-info"
    files = {
        "tinything.py": "SEEN = " + repr(json.dumps(look())),
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: tinything\\nVersion: 1.0\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        f"{info}/RECORD": "",
        # pip installs it last, in the place of the interpreter.
        "tinything-1.0.data/scripts/python": "#!python\\n",
        "tinything-1.0.data/scripts/python3": "#!/bin/sh\\ntouch /tmp/mark\\n",
    }
    name = "tinything-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return name

def look():
    return {"variables": dict(os.environ)}
"""
PROJECT = (
    '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    '[project]\nname = "tinything"\nversion = "1.0"\n'
)
PRY = """
FACTS = json.loads(%r)

def tried(what, *arguments):
    try:
        return what(*arguments)
    except BaseException as error:
        return [type(error).__name__, str(error)]

def direct(host, port):
    import socket
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as s:
        s.settimeout(5)
        s.connect((host, port))
        s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        return "reached " + s.recv(1000).decode("latin-1")

def proxied(request):
    import socket
    port = int(os.environ["http_proxy"].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        s.sendall(request.encode() + b"\\r\\n\\r\\n")
        return s.recv(1000).decode("latin-1").partition("\\r\\n")[0]

def written(path):
    with open(path, "a") as file:
        file.write("from the build")
    return "written"

def read(path):
    with open(path) as file:
        return "read " + file.read()

def environments():
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/environ") as file:
                    found.append(file.read())
            except OSError:
                pass
    return found

def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in range(3):
                os.close(number)
            os.execvp(FACTS["python"], [FACTS["python"], "-c", "import time; time.sleep(600)", FACTS["token"]])
        os._exit(0)
    os.wait()
    import time
    time.sleep(0.2)
    return "started"

def spoil():
    done = []
    for name in os.listdir(FACTS["place"]):
        place = os.path.join(FACTS["place"], name)
        if not name.startswith("tester-"):
            continue
        for link, target in (("escape", FACTS["home"]), ("bin/hosts", "/etc/passwd"), ("up", "../../..")):
            os.symlink(target, os.path.join(place, link))
        os.mkfifo(os.path.join(place, "pipe"))
        with open(os.path.join(place, "suid"), "w") as file:
            file.write("x")
        tried(os.chmod, os.path.join(place, "suid"), 0o6777)
        done.append(name)
    return done

def look():
    return {
        "variables": dict(os.environ),
        "direct": {f"{host} {port}": tried(direct, host, port) for host, port in FACTS["hosts"]},
        "proxied": {request: tried(proxied, request) for request in FACTS["requests"]},
        "read": {path: tried(read, path) for path in FACTS["secrets"]},
        "written": {path: tried(written, path) for path in FACTS["places"]},
        "environments": environments(),
        "daemon": tried(daemon),
        "spoiled": tried(spoil),
    }
"""


def part_of_pry(name: str) -> str:
    """One function of it."""
    start = PRY.index(f"def {name}(")
    return PRY[start : PRY.index("\ndef ", start)].replace("%%", "%") + "\n\n"


class Listener:
    """A server on loopback that answers every request, and counts them."""

    def __init__(self) -> None:
        outer = self
        self.heads: list[str] = []

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.heads.append(f"{self.requestline}\n{self.headers}")
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"here")

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.port = int(self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.mark.slow
def test_a_build_sees_and_reaches_and_leaves_nothing(
    tmp_path: Path, isolating: Sandbox, monkeypatch: pytest.MonkeyPatch, listener: Listener
) -> None:
    context = make_context(tmp_path, isolating)
    home = write_files(tmp_path / "home", {"deep/bin/python": "", ".netrc": "canary", ".aws/credentials": "canary"})
    monkeypatch.setenv("HOME", str(home))
    for name in ("SOME_PROVIDER_API_KEY", "GITHUB_TOKEN", "MLDB_SEED_SECRET", "HARMLESS"):
        monkeypatch.setenv(name, f"canary-{name}")
    write_files(tmp_path / "tester", {".env": "canary-env", "main.py": ""})
    token, port = new_token(), listener.port
    requests = [
        *(f"CONNECT {host}:443 HTTP/1.1" for host in ("127.0.0.1", "169.254.169.254", "10.0.0.1", "[::1]")),
        *("CONNECT localhost:443 HTTP/1.1", "CONNECT 1.1.1.1:22 HTTP/1.1", "GET http://1.1.1.1:8080/ HTTP/1.1"),
        *(f"CONNECT 127.0.0.1:{port} HTTP/1.1", f"GET http://127.0.0.1:{port}/ HTTP/1.1"),
        *("GET http://169.254.169.254/latest/meta-data/ HTTP/1.1", "GET http://[::ffff:127.0.0.1]/ HTTP/1.1"),
        *("CONNECT 2130706433:443 HTTP/1.1", "CONNECT 100.100.100.200:443 HTTP/1.1", "POST http://10.0.0.1/ HTTP/1.1"),
    ]
    facts = {
        "python": "/usr/bin/python3" if isolating.name == "bubblewrap" else "/opt/bench/bin/python",
        "token": token,
        "hosts": [("127.0.0.1", port), ("169.254.169.254", 80), ("10.0.0.1", 80), ("1.1.1.1", 443), ("::1", port)],
        "requests": requests,
        "secrets": [f"{home}/.netrc", f"{home}/.aws/credentials", f"{tmp_path}/tester/.env", "/agent/.env"],
        "places": [f"{home}/new", f"{tmp_path}/cache/environments/x", "/usr/x", f"{sys.prefix}/x", f"{ROOT}/x"],
        "home": str(home),
        "place": str(tmp_path / "cache" / "environments"),
    }
    files = {"pkg/backend.py": BACKEND + PRY % json.dumps(facts), "pkg/pyproject.toml": PROJECT}
    write_files(tmp_path / "tester", {**files, "requirements.txt": "./pkg\n"})
    agent = make_agent(tmp_path, LOOK_AGAIN, environment={"requirements": "requirements.txt"})
    cell = make_cell(agent, make_case(tmp_path / "cases"))
    record = run_cell(cell, context)
    assert record.outcome == "graded", record
    assert not processes_with(token), "the daemon ended with the build"
    python = agent_python(agent, context)
    seen = json.loads((context.trace(cell) / "out" / "seen.json").read_text())
    assert "canary" not in json.dumps(seen)
    assert "PATH" in seen["variables"] and "HARMLESS" not in seen["variables"]
    assert seen["environments"], "it sees its own"
    assert seen["daemon"] == "started" and seen["spoiled"] == [python.parent.parent.name]
    # Its own loopback has the proxy's port, and nothing else.
    assert all(isinstance(answer, list) for answer in (*seen["direct"].values(), *seen["read"].values())), seen
    assert all(isinstance(answer, list) or path.startswith("/tmp") for path, answer in seen["written"].items()), seen
    assert not any(path.exists() for path in (home / "new", tmp_path / "cache/environments/x", ROOT / "x"))
    assert all(answer.split()[1] in ("403", "405") for answer in seen["proxied"].values()), seen["proxied"]
    assert not listener.heads
    place = python.parent.parent
    assert python.resolve() == find_interpreter(sys.version.split()[0], WHERE).path
    assert (place / "bin" / "python3").resolve() == python.resolve()
    assert not any(os.path.lexists(place / name) for name in ("escape", "pipe", "up", "bin/hosts"))
    assert (place / "suid").stat().st_mode & 0o7022 == 0
    assert (place / "suid").stat().st_uid == os.getuid()
    facts = json.loads(place.with_name(f"{place.name}.json").read_text())
    assert facts["reached"] == {} and "127.0.0.1:443: addresses of this machine" in json.dumps(facts["refused"])


@pytest.mark.parametrize("kind", ["link", "file", "folder", "bin"])
def test_the_runner_makes_the_link_to_the_interpreter_itself(tmp_path: Path, kind: str) -> None:
    """What lies two levels above its target is mounted for the agent."""
    base = find_interpreter(sys.version.split()[0], WHERE)
    home = write_files(tmp_path / "home", {"deep/bin/python": "secret"})
    root, place = write_files(tmp_path / "made", {"bin/tool": "x", "lib/a": "x"}), tmp_path / "place"
    (root / "lib64").symlink_to("lib")
    (root / "bin" / "own").symlink_to(place / "lib" / "a")
    if kind == "link":
        (root / "bin" / "python").symlink_to(home / "deep" / "bin" / "python")
        (root / "bin" / "python3").symlink_to("../../home/deep/bin/python")
    elif kind == "bin":
        remove_tree(root / "bin")
        (root / "bin").symlink_to(home / "deep" / "bin")
    else:
        write_files(root, {"bin/python/x" if kind == "folder" else "bin/python": "#!/bin/sh\n"})
    make_harmless(root, place, base)
    for name in ("python", "python3", f"python{sys.version_info[0]}.{sys.version_info[1]}"):
        assert os.readlink(root / "bin" / name) == str(base.path)
    assert os.readlink(root / "lib64") == "lib"
    assert kind == "bin" or os.readlink(root / "bin" / "own") == str(place / "lib" / "a")
    assert (home / "deep" / "bin" / "python").read_text() == "secret"


def test_the_runner_says_itself_where_the_standard_library_is(tmp_path: Path) -> None:
    """An interpreter that is started through the environment's link would take it from where the build says."""
    base = find_interpreter(sys.version.split()[0], WHERE)
    root, place = tmp_path / "made", tmp_path / "place"
    for number, kind in enumerate(("file", "folder", "link")):
        made = write_files(root / str(number), {"lib/a": "x", "other": "home = /evil\n"})
        if kind == "link":
            (made / "pyvenv.cfg").symlink_to("other")
        else:
            write_files(made, {"pyvenv.cfg/x" if kind == "folder" else "pyvenv.cfg": f"home = {place}/evil/bin\n"})
        make_harmless(made, place, base)
        facts = dict(line.split(" = ") for line in (made / "pyvenv.cfg").read_text().splitlines())
        assert facts["home"] == str(base.path.parent) and facts["include-system-site-packages"] == "false"
        assert not (made / "pyvenv.cfg").is_symlink()
        assert (made / "other").read_text() == "home = /evil\n"
        asked = [str(made / "bin" / "python"), "-I", "-c", "import os, sys; print(sys.prefix, os.__file__)"]
        prefix, library = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
        assert prefix == str(made) and not library.startswith(str(tmp_path))


LEADS_OUT = {
    "through a link": {"a/b/c/y": "../../../x", "a/b/c/z": "y/../../secret"},
    "through a link by its place": {"a/y": "PLACE/x", "a/b/c/z": "PLACE/a/y/../../secret"},
    "through two": {"a/b/c/y": "../w", "a/b/w": "../../x", "z": "a/b/c/y/../../secret"},
    "by its place and up": {"z": "PLACE/../secret"},
    "in a circle": {"z": "y", "y": "z"},
    "at once": {"z": "../secret"},
}
STAYS_IN = {
    "up and down": {"a/b/z": "../../x/file"},
    "through a link": {"a/b/c/y": "../../../x", "a/z": "b/c/y/file"},
    "by its place": {"z": "PLACE/x/../x/file"},
    "to a link by its place": {"y": "PLACE/x", "z": "./y//file"},
}


@pytest.mark.parametrize(
    ("links", "stays"),
    [(it, False) for it in LEADS_OUT.values()] + [(it, True) for it in STAYS_IN.values()],
    ids=[*LEADS_OUT, *(f"in: {name}" for name in STAYS_IN)],
)
def test_links_are_judged_by_where_they_really_lead(tmp_path: Path, links: dict[str, str], stays: bool) -> None:
    base = find_interpreter(sys.version.split()[0], WHERE)
    write_files(tmp_path / "around", {"secret": "secret"})
    root, place = (
        write_files(tmp_path / "around" / "made", {"x/file": "x", "a/b/c/d": "x"}),
        tmp_path / "around" / "place",
    )
    for name, target in links.items():
        (root / name).symlink_to(target.replace("PLACE", str(place)))
    link = root / next(name for name in links if name.endswith("z"))
    make_harmless(root, place, base)
    root.rename(place)
    link = place / link.relative_to(root)
    assert os.path.lexists(link) is stays
    assert not stays or link.read_text() == "x"


LOOK_AGAIN = """
import os, tinything

open(os.path.join(os.environ["BENCH_OUT_DIR"], "seen.json"), "w").write(tinything.SEEN)
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_without_isolation_it_ends_with_its_job_and_gets_no_variables(
    tmp_path: Path, plain: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, token = make_context(tmp_path, plain), new_token()
    monkeypatch.setenv("GITHUB_TOKEN", "canary")
    more = f"FACTS = { ({'python': sys.executable, 'token': token})!r}\n{part_of_pry('daemon')}"
    more += "def look():\n    return {'variables': dict(os.environ), 'daemon': daemon()}\n"
    files = {"pkg/backend.py": BACKEND + more, "pkg/pyproject.toml": PROJECT, "requirements.txt": "./pkg\n"}
    write_files(tmp_path / "tester", files)
    agent = make_agent(tmp_path, LOOK_AGAIN, environment={"requirements": "requirements.txt"})
    cell = make_cell(agent, make_case(tmp_path / "cases"))
    assert run_cell(cell, context).outcome == "graded"
    seen = json.loads((context.trace(cell) / "out" / "seen.json").read_text())
    assert seen["daemon"] == "started" and "canary" not in json.dumps(seen)
    assert not processes_with(token)


SLOW = """
def look():
    import subprocess, sys
    subprocess.run([sys.executable, "-c", "import time; time.sleep(600)", %r])
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bubblewrap", at_night("process")])
def test_a_build_ends_with_its_runner(tmp_path: Path, name: str, bubblewrap: Sandbox) -> None:
    """It has no lock to hold, since nothing of it lives beside the next build."""
    token = new_token()
    files = {"pkg/backend.py": BACKEND + SLOW % token, "pkg/pyproject.toml": PROJECT, "requirements.txt": "./pkg\n"}
    write_files(tmp_path / "tester", files)
    agent = make_agent(tmp_path, "", environment={"requirements": "requirements.txt"})
    first = subprocess.Popen([sys.executable, "-c", BUILD, str(agent.folder), str(tmp_path), name], cwd=ROOT)
    until = time.monotonic() + 120
    while not processes_with(token) and time.monotonic() < until:
        time.sleep(0.05)
    assert processes_with(token)
    first.kill()
    first.wait()
    assert wait_until_gone(token, 30) == []
    (agent.folder / "pkg" / "backend.py").write_text(BACKEND)
    assert imports(agent_python(load_agent(agent.folder), make_context(tmp_path, bubblewrap)), "tinything")


# --- from the indexes of this machine's owner ---------------------------------------------------------------------


def write_index(folder: Path, files: str) -> Path:
    """An index of one wheel in `folder`; its files lie where `files` says, as seen from the page."""
    page = folder / "simple" / "tinything"
    page.mkdir(parents=True)
    wheel = make_wheel(Path(os.path.normpath(page / files)))
    (page / "index.html").write_text(f'<!DOCTYPE html><html><body><a href="{files}/{wheel}">{wheel}</a></body></html>')
    return folder / "simple"


@pytest.mark.slow
@pytest.mark.parametrize("setting", on_push(["variable", "file", "uv", "find-links", "constraint"], ["variable"]))
def test_an_index_in_a_folder(
    tmp_path: Path, isolating: Sandbox, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    index = write_index(tmp_path / "index", "../../files")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", f"file://{index}")
    if setting == "file":
        monkeypatch.delenv("PIP_INDEX_URL")
        write_files(tmp_path, {"pip.conf": f"[global]\nindex-url = file://{index}\n[install]\nlog = /no/such/place\n"})
        monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    elif setting == "uv":
        monkeypatch.delenv("PIP_INDEX_URL")
        monkeypatch.setenv("UV_INDEX", f"mine=file://{index}")
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"file://{index}")
    elif setting == "find-links":
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index" / "files"))
    elif setting == "constraint":
        write_files(tmp_path, {"own.txt": "tinything==7\n"})
        monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "own.txt"))
    write_files(tmp_path / "tester", {"requirements.txt": "tinything==1.0\n"})
    agent = make_agent(tmp_path, "", environment={"requirements": "requirements.txt"})
    context = make_context(tmp_path, isolating)
    if setting == "constraint":
        with pytest.raises(InfraError, match="conflicting dependencies"):
            agent_python(agent, context)
        return
    assert imports(agent_python(agent, context), "tinything")


@pytest.mark.nightly
@pytest.mark.slow
def test_an_index_with_a_password_at_a_private_address(
    tmp_path: Path, isolating: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy adds the password; the build scripts do not see it, and can only read with it."""
    index = write_index(tmp_path / "index", "../../files")
    heads: list[str] = []

    class Index(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(tmp_path / "index"))

        def send_head(self) -> Any:
            heads.append(self.headers.get("Authorization", ""))
            if heads[-1] != "Basic " + base64.b64encode(b"me:can@ary").decode():
                self.send_error(401)
                return None
            return super().send_head()

        def log_message(self, *_: object) -> None:
            pass

    assert index.is_dir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        port = server.server_address[1]
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://me:can%40ary@127.0.0.1:{port}/simple")
        facts = {"requests": [f"{way} http://127.0.0.1:{port}/ HTTP/1.1" for way in ("PUT", "POST", "GET")]}
        facts["requests"] += [f"CONNECT 127.0.0.1:{port} HTTP/1.1", f"GET http://127.0.0.1:{port + 1}/ HTTP/1.1"]
        more = f"FACTS = {facts}\n{part_of_pry('tried')}{part_of_pry('proxied')}"
        more += "def look():\n    asked = [tried(proxied, it) for it in FACTS['requests']]\n"
        more += "    return {'variables': dict(os.environ), 'proxied': asked}\n"
        files = {"pkg/backend.py": BACKEND.replace("tinything", "other") + more}
        files |= {"pkg/pyproject.toml": PROJECT.replace("tinything", "other"), "requirements.txt": "tinything\n./pkg\n"}
        write_files(tmp_path / "tester", files)
        agent = make_agent(tmp_path, "", environment={"requirements": "requirements.txt"})
        python = agent_python(agent, make_context(tmp_path, isolating))
        server.shutdown()
    assert imports(python, "tinything")
    asked = subprocess.run([str(python), "-c", "import other; print(other.SEEN)"], capture_output=True, check=True)
    seen = json.loads(asked.stdout)
    assert "ary" not in json.dumps(seen["variables"]), seen
    assert [answer.split()[1] for answer in seen["proxied"]] == ["405", "405", "200", "403", "403"]
    assert all(heads)


def test_without_an_index_of_the_owners_it_is_pips_own(bubblewrap: Sandbox) -> None:
    """Whatever these names stand for on this machine, such as a mirror nearby."""
    nothing = {"PIP_CONFIG_FILE": os.devnull}
    names = {"pypi.org:443": "", "files.pythonhosted.org:443": ""}
    assert {str(it): header for it, header in package_sources(bubblewrap, nothing).origins.items()} == names
    assert package_sources(bubblewrap, {**nothing, "PIP_NO_INDEX": "1"}).origins == {}
    other = package_sources(bubblewrap, {**nothing, "PIP_INDEX_URL": "http://a:b@index.internal:3141/x/+simple/"})
    assert {str(it): header for it, header in other.origins.items()} == {"index.internal:3141": "Basic YTpi"}
    assert other.variables["PIP_INDEX_URL"] == "http://index.internal:3141/x/+simple/"


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"PIP_INDEX_URL": "https://me:secret@example.org/simple"}, "wants a password over https"),
        ({"PIP_EXTRA_INDEX_URL": "https://token@example.org/simple"}, "wants a password over https"),
        ({"PIP_FIND_LINKS": "ftp://example.org"}, "ftp: addresses are not supported"),
        ({"PIP_CONSTRAINT": "/no/such/file"}, "cannot be read"),
    ],
)
def test_settings_that_cannot_be_kept_safe_are_one_line(
    tmp_path: Path, context: CellContext, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], fault: str
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    write_files(tmp_path / "tester", {"requirements.txt": "tinything\n"})
    agent = make_agent(tmp_path, "", environment={"requirements": "requirements.txt"})
    with pytest.raises(UserError, match=fault) as raised:
        agent_python(agent, context)
    assert "secret" not in str(raised.value)


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


def test_a_missing_one_is_one_line_with_the_remedy(tmp_path: Path, plain: Sandbox) -> None:
    agent = make_agent(tmp_path, "", environment={"python": "3.99"})
    with pytest.raises(UserError) as raised:
        agent_python(agent, make_context(tmp_path, plain))
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
def test_an_agent_has_its_own_python_and_its_commands_the_cases(tmp_path: Path, variant_sandbox: Sandbox) -> None:
    have(OTHER)
    variables = {"LOOK_HERE": "{agent}/main.py", "BENCH_TASK_FILE": "mine"}
    agent = tiny_agent(tmp_path, LOOK, python=OTHER, variables=variables)
    cell, context = make_cell(agent, make_case(tmp_path / "cases")), make_context(tmp_path, variant_sandbox)
    record = run_cell(cell, context)
    assert record.success, record
    found = json.loads((context.trace(cell) / "out" / "found.json").read_text())
    version, prefix, word = found["mine"]
    assert version == [int(part) for part in OTHER.split(".")]
    assert prefix.startswith(str(context.folders.cache))
    # The image has an interpreter of its own, Python 3.11.
    cases = "(3, 11) /opt/bench" if variant_sandbox.name == "docker" else f"{tuple(sys.version_info[:2])} {sys.prefix}"
    assert found["python"] == cases == found["variable"]
    assert word == found["agents"] == "from the agent"
    assert "No module named 'tinything'" in found["leak"]
    assert found["program"] == "program of the agent"
    assert not found["which"].startswith(str(context.folders.cache))
    folder = "/agent" if variant_sandbox.isolated else str(agent.staged(context.staged(agent)))
    assert found["set"] == [f"{folder}/main.py", True]


@pytest.mark.slow
@pytest.mark.nightly
def test_the_command_may_be_a_program_of_its_packages(tmp_path: Path, bubblewrap: Sandbox) -> None:
    tiny_agent(tmp_path)
    environment = {"requirements": "requirements.txt"}
    agent = make_agent(tmp_path, "", environment=environment, command=["tinything-program"])
    cell, context = make_cell(agent, make_case(tmp_path / "cases")), make_context(tmp_path, bubblewrap)
    record = run_cell(cell, context)
    assert (record.outcome, record.stop_reason) == ("graded", "finished")
    assert (context.trace(cell) / "agent.log").read_text() == "program of the agent\n"
