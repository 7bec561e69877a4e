"""An agent's own image: any file system with a program in it, over a real engine; workspace and gateway are ours."""

from __future__ import annotations

import io
import os
import re
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bench.base.errors import InfraError, UserError
from bench.cell.run import run_cell
from bench.formats.agent import Agent, load_agent
from bench.runs.preflight import NotReady, require_ready
from bench.sandbox.docker.backend import _UNPRIVILEGED, DockerSandbox
from bench.sandbox.docker.client import find_engine
from bench.sandbox.docker.container import Parts, User, container
from bench.sandbox.docker.guest_python import GuestPython, guest_python
from bench.sandbox.docker.own_image import OwnImage, own_image
from bench.sandbox.job import Mount, Sandbox
from bench.sandbox.running import run_job
from tests.helpers.cells import as_settings, make_case, make_cell, make_context, make_job, make_limits, write_files
from tests.helpers.provider import PRICES, Reply, ScriptedUpstream, Usage
from tests.helpers.workers import log_of

UNKNOWN = f"example.org/agent@sha256:{'0' * 64}"
STATIC = """
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    char line[4096];
    FILE *answer = fopen("answer.py", "w");
    fputs("def double(x):\\n    return 2 * x\\n", answer);
    fclose(answer);
    printf("python %d, marker %d, home %d\\n", !access("/opt/bench", F_OK), !access("/marker", F_OK),
           !access("/root/.cache", F_OK));
    printf("write %d\\n", fopen("/marker2", "w") != NULL);
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (strspn(line, "SU") || !strncmp(line, "CapEff:", 7)) fputs(line, stdout);
    return count - 1;
}
"""
CALLS = r"""
echo "$(cat /marker), PATH=$PATH, $FLAVOUR, python is ${BENCH_PYTHON:-none}, preload is ${LD_PRELOAD:-none}"
address=${OPENAI_BASE_URL#http://}
body="{\"model\": \"$BENCH_MODEL\", \"messages\": [{\"role\": \"user\", \"content\": \"hello\"}], \"max_tokens\": 60}"
exec 3<>"/dev/tcp/${address%%:*}/$(echo "${address#*:}" | { IFS=/ read -r port _; echo "$port"; })"
printf 'POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\n' "$OPENAI_API_KEY" >&3
printf 'Content-Type: application/json\r\nConnection: close\r\nContent-Length: %s\r\n\r\n%s' "${#body}" "$body" >&3
while read -r line <&3 || [ -n "$line" ]; do echo "$line"; done
printf 'def double(x):\n    return 2 * x\n' >"$BENCH_WORKSPACE/answer.py"
"""


def archive_of(files: Mapping[str, bytes | Path], place: Path, links: Mapping[str, str] = {}) -> Path:
    """A tar of these files, all of them executable, and of links by their targets."""
    with tarfile.open(place, "w") as tar:
        for name, target in links.items():
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
        for name, content in files.items():
            data = content.read_bytes() if isinstance(content, Path) else content
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
    return place


def imported(archive: Path, *changes: str) -> str:
    """The content id of an image that holds what is in the archive."""
    options = [word for change in changes for word in ("--change", change)]
    done = subprocess.run(["docker", "import", *options, str(archive)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def images(docker: DockerSandbox) -> Iterator[list[str]]:
    """Ids of images that are removed after the test."""
    del docker
    made: list[str] = []
    yield made
    subprocess.run(["docker", "image", "rm", "--force", *made], capture_output=True, check=True)


@pytest.fixture
def bare(images: list[str], tmp_path: Path) -> str:
    """An image of one static program: without Python, shell, and C library."""
    source = tmp_path / "agent.c"
    source.write_text(STATIC)
    subprocess.run(["gcc", "-static", "-o", tmp_path / "agent", source], check=True)
    content: dict[str, bytes | Path] = {"/agent-program": tmp_path / "agent", "/marker": b"here"}
    images.append(imported(archive_of(content, tmp_path / "bare.tar"), "USER nobody", 'ENTRYPOINT ["/none"]'))
    return images[-1]


@pytest.fixture
def with_shell(images: list[str], tmp_path: Path) -> str:
    """An image of bash, cat and their libraries, which sets variables that hurt."""
    programs = [Path(os.path.realpath(path)) for path in ("/bin/bash", "/bin/cat")]
    content: dict[str, bytes | Path] = {f"/tools/{path.name}": path for path in programs}
    for program in programs:
        said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        content |= {path: Path(path) for path in re.findall(r"(/\S+) \(0x", said)}
    content |= {"/marker": b"the image's own", "/etc/ld.so.preload": b"/no/such.so\n"}
    changes = (
        "ENV PATH=/tools", "ENV FLAVOUR=plain", "ENV LD_PRELOAD=/no/such.so", "ENV PYTHONHOME=/none",
        "ENV LD_LIBRARY_PATH=/none", "WORKDIR /none",
    )  # fmt: skip
    images.append(imported(archive_of(content, tmp_path / "shell.tar"), *changes))
    return images[-1]


def agent_in(folder: Path, image: str, **facts: object) -> Agent:
    """An agent whose file system is the image."""
    merged = {"schema": 1, "id": "tester", "command": ["/agent-program"], **facts}
    merged["environment"] = {"image": image, **dict(facts.get("environment", {}))}  # type: ignore[call-overload]
    write_files(folder / "tester", {"agent.yaml": as_settings(merged)})
    return load_agent(folder / "tester")


@pytest.mark.docker
def test_an_image_without_python_shell_or_library_solves_a_case(
    bare: str, docker: DockerSandbox, tmp_path: Path
) -> None:
    """Two stages: the agent in its image, and the judge in ours."""
    context = make_context(tmp_path, docker)
    cell = make_cell(agent_in(tmp_path, bare), make_case(tmp_path))
    record = run_cell(cell, context)
    log = (context.trace(cell) / "agent.log").read_text()
    assert (record.success, record.stop_reason, record.flags) == (True, "finished", []), (record.error, log)
    assert "python 0, marker 1, home 0\nwrite 0\n" in log
    assert "Seccomp:\t2" in log and "CapEff:\t0000000000000000" in log
    (uid,) = re.findall(r"^Uid:\t(\d+)\t", log, re.MULTILINE)
    assert (int(uid) in _UNPRIVILEGED) if os.getuid() == 0 else (int(uid) == docker._user().uid)
    assert record.agent.digest == cell.agent.digest


@pytest.mark.docker
def test_its_calls_go_through_the_gateway_and_its_variables_are_its_own(
    with_shell: str, docker: DockerSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = make_context(tmp_path, docker)
    command = ["bash", "{agent}/main.sh"]
    agent = agent_in(tmp_path, with_shell, command=command, models={"main": "openai/gpt-4o-mini"})
    write_files(agent.folder, {"main.sh": CALLS})
    cell = make_cell(load_agent(agent.folder), make_case(tmp_path))
    with ScriptedUpstream([Reply("Hello, image.", usage=Usage(123, 45))], prices=dict(PRICES)) as upstream:
        for name, value in upstream.environment().items():
            monkeypatch.setenv(name, value)
        record = run_cell(cell, context)
    assert record.success, (record.error, record.checks, log_of(cell, context))
    log = (context.trace(cell) / "agent.log").read_text()
    assert "the image's own, PATH=/tools, plain, python is none, preload is /no/such.so" in log
    assert "Hello, image." in log
    (usage,) = record.usage
    assert (usage.calls, usage.tokens.input_uncached, usage.tokens.output) == (1, 123, 45)
    assert upstream.usage_totals.calls == 1
    assert record.flags == []


@pytest.mark.docker
def test_an_image_with_a_volume_is_refused(images: list[str], docker: Sandbox, tmp_path: Path) -> None:
    del docker
    images.append(imported(archive_of({"/marker": b"x"}, tmp_path / "volume.tar"), "VOLUME /data"))
    with pytest.raises(UserError, match="declares the volume /data"):
        own_image(find_engine(), images[-1])


@pytest.mark.docker
def test_limits_hold_in_it(with_shell: str, docker: Sandbox, tmp_path: Path) -> None:
    code = "printf -v word '%*s' 10000000 ''; while true; do many+=(\"$word\"); done"
    ended = run_job(
        docker, replace(make_job(tmp_path, ["bash", "-c", code], limits=make_limits(memory_mb=200)), image=with_shell)
    )
    assert ended.reason == "memory_limit", ended
    spin = replace(
        make_job(tmp_path, ["bash", "-c", "while true; do :; done"], limits=make_limits(wall_s=2)), image=with_shell
    )
    assert run_job(docker, spin).reason == "time_limit"


TAKES_OVER = b"import os\nos.write(1, b'taken over')\nos._exit(3)\n"
TAKEN_PLACES = ("library/bench/__init__", "library/bench/guest/__init__", "library/resource", "python/lib/os")


@pytest.mark.docker
@pytest.mark.parametrize("place", ["/run/bench/library", "/run/bench/library/bench", "/run/bench/python"])
def test_nothing_of_the_image_becomes_our_first_process(
    place: str, images: list[str], docker: DockerSandbox, tmp_path: Path
) -> None:
    """Neither what lies where ours is mounted, nor files of the agent that a link of its image brings there."""
    content: dict[str, bytes | Path] = {f"/run/bench/{name}.py": TAKES_OVER for name in TAKEN_PLACES}
    content |= {"/run/bench/ask.sock/is/a-folder": b"", "/tools/cat": Path("/bin/cat")}
    said = subprocess.run(["ldd", "/bin/cat"], capture_output=True, text=True, check=True).stdout
    content |= {path: Path(path) for path in re.findall(r"(/\S+) \(0x", said)}
    archive = archive_of(content, tmp_path / "image.tar", {"/_shared/x": place})
    images.append(imported(archive, "ENV LC_ALL=xx_XX.EVIL8", "ENV LOCPATH=/evil", "ENV GCONV_PATH=/evil"))
    names = ("__init__", "library/bench/__init__", "bench/__init__", "guest/__init__", "resource", "os", "lib/x")
    shared = write_files(tmp_path / "shared", {f"{name}.py": TAKES_OVER.decode() for name in names})
    (tmp_path / "work").mkdir()
    with socket.socket(socket.AF_UNIX) as ask:
        ask.bind(str(tmp_path / "ask"))
        ask.listen()
        job = make_job(tmp_path / "work", ["/tools/cat", "/proc/self/status"], image=images[-1])
        mounts = [*job.mounts, Mount(shared, "/_shared/x")]
        ended = run_job(docker, replace(job, mounts=mounts, sockets={"ask": tmp_path / "ask"}))
    assert (ended.reason, ended.code) == ("exit", 0), ended
    assert b"taken over" not in ended.stdout
    # The engine's and ours.
    assert b"Seccomp_filters:\t2" in ended.stdout, ended.stdout


def test_the_engine_holds_what_the_image_must_not_decide(tmp_path: Path) -> None:
    """The description of a container: nothing of the image's language and variables, and limits on its processes."""
    own = OwnImage("sha256:1", {"LC_ALL": "xx_XX.EVIL8", "LD_PRELOAD": "/evil.so"})
    python = GuestPython(tmp_path, ["loader"])
    job = make_job(tmp_path, ["true"], limits=make_limits(wall_s=10))
    parts = Parts("name", own.content, User(1, 1), tmp_path, tmp_path, {}, own, python)
    made = container(job, parts)
    assert made["Env"] == ["LD_PRELOAD", "LC_ALL=C"]
    assert made["HostConfig"]["Tmpfs"]["/run/bench"].startswith("ro,")
    limits = {it["Name"]: it["Hard"] for it in made["HostConfig"]["Ulimits"]}
    assert limits["cpu"] == 100 and limits["core"] == 1
    targets = [mount["Target"] for mount in made["HostConfig"]["Mounts"]]
    assert targets.index("/run/bench/library") < targets.index("/run/bench/library/bench/guest")


@pytest.mark.docker
def test_an_image_that_the_engine_lacks_is_told_before_the_first_cell(docker: DockerSandbox, tmp_path: Path) -> None:
    agent = agent_in(tmp_path, UNKNOWN)
    cell = make_cell(agent, make_case(tmp_path))
    with pytest.raises(NotReady) as told:
        require_ready([cell], docker, tmp_path, ask=False)
    assert "environment.image" in str(told.value) and f"`docker pull {UNKNOWN}`" in str(told.value)
    assert "\n" not in str(told.value)
    with pytest.raises(UserError, match="load it there"):
        own_image(find_engine(), f"sha256:{'0' * 64}")
    job = make_job(tmp_path, ["true"], image=UNKNOWN)
    with pytest.raises(InfraError, match="has no image"):
        run_job(docker, job)


def test_bubblewrap_says_that_it_cannot(bubblewrap: Sandbox, tmp_path: Path) -> None:
    cell = make_cell(agent_in(tmp_path, UNKNOWN), make_case(tmp_path))
    with pytest.raises(NotReady, match="the sandbox bubblewrap starts no images") as told:
        require_ready([cell], bubblewrap, tmp_path, ask=False)
    assert "--sandbox docker" in str(told.value)
    record = run_cell(cell, make_context(tmp_path, bubblewrap))
    assert record.outcome == "skipped" and record.error is not None
    assert "the sandbox bubblewrap starts no images" in record.error


@pytest.mark.parametrize("image", ["debian", "debian:12", "debian@sha256:12", "Debian@sha256:" + "0" * 64, "sha256:0"])
def test_an_image_without_its_digest_is_refused(image: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as told:
        agent_in(tmp_path, image)
    assert "environment.image" in str(told.value) and "NAME@sha256:" in str(told.value)
    assert "\n" not in str(told.value)


def test_packages_beside_an_image_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"`environment\.python`: an agent with an image has its packages in there"):
        agent_in(tmp_path, UNKNOWN, environment={"python": "3.12"})


def test_the_digest_of_the_image_is_in_the_agents(tmp_path: Path) -> None:
    one = agent_in(tmp_path / "one", UNKNOWN)
    other = agent_in(tmp_path / "other", UNKNOWN.replace("sha256:0", "sha256:1"))
    assert one.digest != other.digest


def test_the_lent_interpreter_needs_nothing_but_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made once for an interpreter, readable for every user, without what is installed on this machine."""
    monkeypatch.setenv("ML_DEV_BENCH_CACHE", str(tmp_path))
    lent = guest_python()
    assert guest_python() == lent
    files = [path for path in lent.folder.rglob("*") if path.is_file()]
    assert all(path.stat().st_mode & 0o004 and not path.is_symlink() for path in files)
    assert not [path for path in files if "site-packages" in path.parts]
    assert not [path for path in lent.folder.rglob("*") if path.is_dir() and not path.stat().st_mode & 0o001]
    code = "import ctypes, socket, json, subprocess, threading, sys; print(sys.prefix)"
    command = [word.replace("/run/bench/python", str(lent.folder)) for word in lent.command]
    done = subprocess.run([*command, "-c", code], capture_output=True, text=True, env={}, check=True)
    assert done.stdout.strip() == str(lent.folder)
    assert sys.prefix not in done.stdout
    mapped = subprocess.run(
        [*command, "-c", "import ctypes, ssl; print(open('/proc/self/maps').read())"],
        capture_output=True, text=True, env={}, check=True,
    ).stdout  # fmt: skip
    executed = [line for line in mapped.splitlines() if " r-xp " in line and "/" in line]
    assert len(executed) > 5 and not [line for line in executed if str(lent.folder) not in line]
