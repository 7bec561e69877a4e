"""Which engine is meant (DOCKER_HOST, contexts, TLS), and what needs Docker's Python library."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from bench.base.errors import UserError
from bench.cli.health import check_health
from bench.sandbox.choose import choose_sandbox, handed_on
from bench.sandbox.docker.backend import DockerSandbox
from bench.sandbox.docker.client import find_address, find_engine, image_id, open_client
from bench.sandbox.docker.images import Build, build_case, shared_tag
from tests.helpers.cells import ROOT, new_token, not_here, python, run_code, write_files

SOCKET = Path("/var/run/docker.sock")
_VARIABLES = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the client's settings of the test's own, and no variable that names an engine."""
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    # The library asks a proxy even for this machine.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "config"))
    return write_files(tmp_path / "config", {"config.json": "{}"})


@pytest.fixture
def socket(docker: DockerSandbox, tmp_path: Path) -> Path:
    """Another path of the real engine's socket, so that a test sees by which name it was found."""
    del docker
    link = tmp_path / "engine.sock"
    link.symlink_to(SOCKET)
    return link


def context(*words: str) -> None:
    """Run `docker context`."""
    done = subprocess.run(["docker", "context", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def cli(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the program."""
    env = {**os.environ, **variables}
    return subprocess.run(python("-m", "bench", *words), cwd=ROOT, env=env, capture_output=True, text=True, check=False)


# --- which engine ----------------------------------------------------------------------------------------------------


@pytest.mark.docker
def test_the_context_in_use_is_the_engine(socket: Path, tmp_path: Path) -> None:
    assert find_engine().address == SOCKET
    context("create", "mine", "--docker", f"host=unix://{socket}")
    assert find_engine().address == SOCKET
    context("use", "mine")
    assert find_engine().address == socket
    assert handed_on("docker")["DOCKER_HOST"] == f"unix://{socket}"
    assert run_code(choose_sandbox("docker"), tmp_path, "print(6 * 7)").stdout == b"42\n"
    assert cli("image", "show").stdout.startswith(shared_tag())
    assert f"docker context mine: unix://{socket}" in cli("doctor").stdout


@pytest.mark.docker
def test_variables_come_before_the_context_in_use(socket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("used", "named"):
        context("create", name, "--docker", f"host=unix://{socket.parent}/{name}.sock")
    context("use", "used")
    monkeypatch.setenv("DOCKER_CONTEXT", "named")
    assert find_address().url == f"unix://{socket.parent}/named.sock"
    monkeypatch.setenv("DOCKER_CONTEXT", "default")
    assert find_engine().address == SOCKET
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
    assert find_engine().address == socket


@pytest.mark.docker
def test_a_run_stays_with_its_engine_when_its_context_changes(socket: Path) -> None:
    context("create", "mine", "--docker", f"host=unix://{socket}")
    context("use", "mine")
    assert find_engine().address == socket
    context("update", "mine", "--docker", "host=unix:///nowhere.sock")
    assert find_engine().address == socket


def test_a_context_that_is_not_there_is_a_mistake_with_a_remedy(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(config, {"config.json": json.dumps({"currentContext": "gone"})})
    with pytest.raises(UserError, match=rf"docker context gone: is not in {config}/contexts \(see `docker context ls`"):
        find_engine()
    monkeypatch.setenv("DOCKER_CONTEXT", "other")
    with pytest.raises(UserError, match="docker context other: is not in"):
        choose_sandbox("docker")


@pytest.mark.parametrize("text", ["{", "[]", '"x"'])
def test_a_broken_configuration_is_a_mistake_with_a_remedy(config: Path, text: str) -> None:
    write_files(config, {"config.json": text})
    with pytest.raises(UserError, match=r"config\.json: cannot be read: .*\(fix it, or set DOCKER_HOST\)"):
        find_engine()


@pytest.mark.docker
@pytest.mark.parametrize("text", ["{", "{}", '{"Name": "mine", "Metadata": {}, "Endpoints": {"docker": 3}}'])
def test_a_broken_context_is_a_mistake_with_a_remedy(socket: Path, config: Path, text: str) -> None:
    context("create", "mine", "--docker", f"host=unix://{socket}")
    context("use", "mine")
    next((config / "contexts" / "meta").glob("*/meta.json")).write_text(text)
    with pytest.raises(UserError, match=r"docker context mine: cannot be read: .*create it again"):
        find_engine()


@pytest.mark.parametrize("url", ["tcp://198.51.100.7:2376", "ssh://somebody@198.51.100.7", "nonsense"])
def test_cells_need_a_socket_of_this_machine(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", url)
    with pytest.raises(UserError, match=rf"DOCKER_HOST: is '{url}'; cells mount .*name a Unix socket") as caught:
        choose_sandbox("docker")
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("bubblewrap")
def test_auto_passes_over_an_engine_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://198.51.100.7:2376")
    assert choose_sandbox("auto").name == "bubblewrap"


# --- TLS -------------------------------------------------------------------------------------------------------------


@contextmanager
def tls_engine(certificates: Path) -> Iterator[int]:
    """The real engine behind TLS on a port of this machine; it lets in who shows a certificate of the authority."""
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates / "ca.pem"))
    server_side.verify_mode = ssl.CERT_REQUIRED
    server_side.load_cert_chain(certificates / "server.pem", certificates / "server-key.pem")

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            while part := await reader.read(1 << 16):
                writer.write(part)
                await writer.drain()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_unix_connection(str(SOCKET))
        await asyncio.gather(copy(reader, forth), copy(back, writer), return_exceptions=True)

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_side))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


def make_certificates(folder: Path) -> Path:
    """An authority, and certificates of it for the engine and for its client, named as Docker expects them."""
    folder.mkdir()

    def openssl(*words: str) -> None:
        try:
            subprocess.run(["openssl", *words], cwd=folder, capture_output=True, check=True)
        except FileNotFoundError:
            not_here("openssl")

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(*new, "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca-key.pem", "-out", "ca.pem")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for key, certificate in (("key.pem", "cert.pem"), ("server-key.pem", "server.pem")):
        openssl(*new, "-subj", "/CN=127.0.0.1", "-keyout", key, "-out", "request")
        signing = ("-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-extfile", "names")
        openssl("x509", "-req", "-in", "request", *signing, "-days", "2", "-out", certificate)
    return folder


@pytest.fixture
def remote(docker: DockerSandbox, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Address of an engine behind TLS, and the folder of the certificates for it."""
    del docker
    certificates = make_certificates(tmp_path / "certificates")
    with tls_engine(certificates) as port:
        yield f"tcp://127.0.0.1:{port}", certificates


@pytest.mark.docker
def test_images_and_doctor_reach_an_engine_behind_tls(remote: tuple[str, Path], docker: DockerSandbox) -> None:
    url, certificates = remote
    variables = {"DOCKER_HOST": url, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(certificates)}
    shown = cli("image", "show", **variables)
    assert shown.stdout == f"{shared_tag()} {docker.image}\n", shown.stderr
    found = {it["name"]: it for it in json.loads(cli("doctor", "--json", **variables).stdout)}
    assert found["engine"]["state"] == "ok" and found["engine"]["detail"].endswith(f"DOCKER_HOST: {url}")
    assert found["docker"]["state"] == "note" and "cells mount folders of this machine" in found["docker"]["detail"]
    refused = cli("run", "--agent", "oracle", "--case", "hello_world", "--sandbox", "docker", **variables)
    assert refused.returncode == 2 and "name a Unix socket" in refused.stderr, refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


@pytest.mark.docker
def test_a_context_brings_its_certificates(remote: tuple[str, Path], docker: DockerSandbox) -> None:
    url, certificates = remote
    files = ",".join(f"{name}={certificates / name}.pem" for name in ("ca", "cert", "key"))
    context("create", "far", "--docker", f"host={url},{files}")
    context("use", "far")
    with open_client() as client:
        assert image_id(client, shared_tag()) == docker.image
        assert image_id(client, "no/such-image:1") == ""
    with pytest.raises(UserError, match=r"^docker context far: is 'tcp://"):
        find_engine()


@pytest.mark.docker
def test_who_cannot_be_verified_is_not_spoken_to(
    remote: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", remote[0])
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    for folder, fault in (
        (make_certificates(tmp_path / "stranger"), r"(?s)^DOCKER_HOST: .*CERTIFICATE_VERIFY_FAILED.*docker version"),
        (tmp_path / "nothing", "^DOCKER_HOST: .*certificate and key files must be provided"),
    ):
        monkeypatch.setenv("DOCKER_CERT_PATH", str(folder))
        with pytest.raises(UserError, match=fault), open_client():
            pass


# --- images ----------------------------------------------------------------------------------------------------------


@pytest.mark.docker
def test_an_image_is_built_by_an_engine_behind_tls(
    remote: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in zip(_VARIABLES, (remote[0], "default", "1", str(remote[1])), strict=True):
        monkeypatch.setenv(name, value)
    token = new_token()
    dockerfile = f"ARG BASE\nFROM ${{BASE}}\nCOPY word /word\nLABEL word={token}\n"
    folder = write_files(tmp_path / "labelled" / "environment", {"Dockerfile": dockerfile, "word": token})
    name = build_case(folder, Build(network="none"))
    with open_client() as client:
        assert image_id(client, name)
    wanted = ["docker", "image", "inspect", "--format={{.Config.Labels.word}}", name]
    found = subprocess.run(wanted, capture_output=True, text=True, check=False)
    subprocess.run(["docker", "image", "rm", name], capture_output=True, check=True)
    assert found.stdout.strip() == token, found.stderr
    said = capfd.readouterr()
    assert f"LABEL word={token}" in said.err and not said.out


@pytest.mark.docker
def test_a_build_that_fails_says_why(docker: DockerSandbox, tmp_path: Path) -> None:
    del docker
    for dockerfile, fault in (
        ("RUN exit 7", "image build: .*non-zero code: 7"),
        ("NONSENSE", "docker: the engine says: .*unknown instruction"),
    ):
        files = {"Dockerfile": f"ARG BASE\nFROM ${{BASE}}\n{dockerfile}\n"}
        folder = write_files(tmp_path / dockerfile.split()[0].lower() / "environment", files)
        with pytest.raises(UserError, match=f"^{fault}"):
            build_case(folder, Build(network="none"))


# --- without the library ---------------------------------------------------------------------------------------------


def without_library(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `code` where `import docker` fails."""
    script = f"import sys\nsys.modules['docker'] = None\n{code}"
    env = {**os.environ, **variables}
    return subprocess.run(python("-c", script), cwd=ROOT, env=env, capture_output=True, text=True, check=False)


_MAIN = "from bench.cli.main import main\nsys.argv = {}\nmain()"


@pytest.mark.docker
def test_a_local_socket_serves_cells_without_the_library(docker: DockerSandbox) -> None:
    del docker
    code = "from bench.sandbox.choose import choose_sandbox\nprint(choose_sandbox('auto').name)"
    for variables in ({}, {"DOCKER_HOST": f"unix://{SOCKET}"}):
        assert without_library(code, **variables).stdout == "docker\n"


@pytest.mark.docker
def test_a_run_does_not_import_the_library(docker: DockerSandbox) -> None:
    del docker
    code = "from bench.sandbox.choose import choose_sandbox\nchoose_sandbox('docker')"
    code += "\nimport sys\nprint('docker' in sys.modules)"
    done = subprocess.run(python("-c", code), cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.docker
def test_what_needs_the_library_says_so(socket: Path) -> None:
    remedy = "pip install 'ml-dev-bench[docker]'"
    shown = without_library(_MAIN.format(["mldb", "image", "show"]))
    assert shown.returncode == 2 and remedy in shown.stderr and len(shown.stderr.strip().splitlines()) == 1
    assert remedy in without_library(_MAIN.format(["mldb", "doctor"])).stdout
    context("create", "mine", "--docker", f"host=unix://{socket}")
    code = "from bench.sandbox.choose import choose_sandbox\nprint(choose_sandbox({!r}).name)"
    refused = without_library(code.format("docker"), DOCKER_CONTEXT="mine")
    assert "the context 'mine' needs Docker's Python library" in refused.stderr and remedy in refused.stderr


@pytest.mark.docker
def test_doctor_tells_which_engine_it_asked(docker: DockerSandbox, tmp_path: Path) -> None:
    del docker
    found = {it.name: it for it in check_health(tmp_path)}
    assert found["docker"].state == found["engine"].state == "ok"
    assert found["engine"].detail.endswith(f"docker: unix://{SOCKET}")
