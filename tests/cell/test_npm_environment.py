"""Environments of npm's packages: from a registry on loopback, in the sandboxed build."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import platform
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import InfraError, UserError
from bench.cell.context import CellContext
from bench.cell.environment import agent_python
from bench.cell.package_index import package_sources
from bench.cell.run import run_cell
from bench.cell.wanted_packages import NpmLock
from bench.cell.watch import CellWatch
from bench.formats.agent import Agent
from bench.sandbox.job import Sandbox
from tests.helpers.cells import as_settings, make_agent, make_case, make_cell, make_context, write_files

OWN = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
OTHER = "arm64" if OWN == "x64" else "x64"


@dataclass
class Registry:
    """Archives by their path, and which were asked for."""

    archives: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""
    lock: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, files: dict[str, str], version: str = "1.0.0", **facts: Any) -> None:
        """Offer a package, and name it in the lock. Files that begin with `#!` are executable."""
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w:gz") as archive:
            described = {"package.json": json.dumps({"name": name, "version": version}), **files}
            for path, text in described.items():
                entry = tarfile.TarInfo(f"package/{path}")
                entry.size, entry.mode = len(text.encode()), 0o755 if text.startswith("#!") else 0o644
                archive.addfile(entry, io.BytesIO(text.encode()))
            link = tarfile.TarInfo("package/link")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
        content = made.getvalue()
        self.archives[f"/{name}/-/{name.rsplit('/', maxsplit=1)[-1]}-{version}.tgz"] = content
        digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
        self.lock[f"node_modules/{name}"] = {"version": version, "integrity": f"sha512-{digest}", **facts}

    def write(self, folder: Path) -> None:
        """The lock as npm writes it."""
        packages = {"": {"name": "tester", "version": "1.0.0"}, **self.lock}
        text = json.dumps({"name": "tester", "lockfileVersion": 3, "requires": True, "packages": packages})
        write_files(folder, {"package-lock.json": text})


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    found = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            content = found.archives.get(self.path)
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: object) -> None:
            pass

    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_", "npm_config_", "NPM_CONFIG_")) and name != "PIP_CERT":
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        found.url = f"http://127.0.0.1:{server.server_address[1]}/"
        monkeypatch.setenv("npm_config_registry", found.url)
        yield found
        server.shutdown()


@pytest.fixture
def context(tmp_path: Path, bubblewrap: Sandbox) -> CellContext:
    return make_context(tmp_path, bubblewrap)


def npm_agent(root: Path, registry: Registry, script: str = "", **environment: Any) -> Agent:
    registry.write(root / "tester")
    return make_agent(root, script, environment={"npm": "package-lock.json", **environment})


def with_programs(registry: Registry) -> None:
    """A program in shell, one for Node with a Node of its own, one for another processor, one with scripts."""
    registry.add("@scope/tool", {"bin/tool.sh": "#!/bin/sh\necho tool of npm\n"}, bin={"tool": "bin/tool.sh"})
    registry.add("speaker", {"cli.js": "#!/usr/bin/env node\nspeak\n"}, bin="cli.js")
    registry.add(f"node-linux-{OWN}", {"bin/node": '#!/bin/sh\necho "node runs $1"\n'}, "22.23.3", cpu=[OWN])
    registry.add(f"node-linux-{OTHER}", {"bin/node": "#!/bin/false\n"}, "22.23.3", cpu=[OTHER])
    registry.add("musl", {"a": "b"}, libc=["musl"])
    registry.add("windows", {"a": "b"}, os=["!linux"])
    registry.add("tests", {"a": "b"}, dev=True)
    scripts = json.dumps({"name": "built", "scripts": {"postinstall": 'echo "$PWD" > made; node x > said'}})
    registry.add("built", {"package.json": scripts}, hasInstallScript=True)
    registry.add("unbuilt", {"package.json": scripts.replace("built", "unbuilt")}, hasInstallScript=True)


@pytest.mark.slow
def test_the_lock_is_installed_without_npm_and_without_scripts(
    tmp_path: Path, registry: Registry, context: CellContext
) -> None:
    said: list[str] = []

    class Watch(CellWatch):
        def building(self, agent: str, line: str, *, news: bool) -> None:
            said.append(line)

    with_programs(registry)
    agent = npm_agent(tmp_path, registry, node="22", npm_scripts=["built"], download_mb=1)
    context = replace(context, watch=Watch())
    place = agent_python(agent, context).parent.parent
    asked = sorted(path.split("/-/")[0] for path in registry.asked)
    assert asked == ["/@scope/tool", "/built", f"/node-linux-{OWN}", "/speaker", "/unbuilt"]
    assert said[0] == "building its environment: 5 packages, about 1 MB to download; done once for this content"
    assert said[-1].startswith("environment built in ")
    modules = place / "lib" / "node_modules"
    assert sorted(path.name for path in modules.iterdir()) == sorted(
        ["@scope", "built", f"node-linux-{OWN}", "speaker", "unbuilt"]
    )
    assert (modules / "built" / "made").is_file() and (modules / "built" / "said").read_text() == "node runs x\n"
    assert not (modules / "unbuilt" / "made").exists()
    assert not (modules / "speaker" / "link").is_symlink(), "links are left out, as npm does"
    programs = place / "bin"
    assert subprocess.check_output([programs / "tool"], text=True) == "tool of npm\n"
    assert subprocess.check_output([programs / "speaker"], text=True) == f"node runs {modules}/speaker/cli.js\n"
    assert not (programs / "pip").exists()
    facts = json.loads((context.folders.cache / "environments" / f"{place.name}.json").read_text())
    assert facts["refused"] == {} and facts["received_bytes"] > 0
    registry.asked.clear()
    assert agent_python(agent, context).parent.parent == place
    assert registry.asked == [], "built once"
    more = npm_agent(tmp_path, registry, node="22", npm_scripts=["built", "unbuilt"])
    assert agent_python(more, context).parent.parent != place, "which scripts run is part of the content"


@pytest.mark.slow
def test_a_cell_finds_the_programs_of_the_lock(tmp_path: Path, registry: Registry, context: CellContext) -> None:
    with_programs(registry)
    agent = npm_agent(tmp_path, registry)
    facts = {"schema": 1, "id": "tester", "command": ["tool"], "environment": {"npm": "package-lock.json"}}
    (agent.folder / "agent.yaml").write_text(as_settings(facts))
    from bench.formats.agent import load_agent

    cell = make_cell(load_agent(agent.folder), make_case(tmp_path / "cases"))
    record = run_cell(cell, context)
    assert (record.outcome, record.stop_reason) == ("graded", "finished"), record.error
    assert (context.trace(cell) / "agent.log").read_text() == "tool of npm\n"


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["digest", "missing", "script"])
def test_what_cannot_be_installed_is_said(tmp_path: Path, registry: Registry, context: CellContext, fault: str) -> None:
    scripts = json.dumps({"name": "tool", "scripts": {"install": "exit 3"}})
    registry.add("tool", {"package.json": scripts})
    (path,) = registry.archives
    if fault == "digest":
        registry.archives[path] += b"more"
    elif fault == "missing":
        registry.archives.clear()
    agent = npm_agent(tmp_path, registry, npm_scripts=["tool"])
    said = {"digest": "does not have the digest of the lock", "missing": "cannot be downloaded: HTTP Error 404",
            "script": "its script install ended with status 3: exit 3"}[fault]  # fmt: skip
    with pytest.raises(InfraError, match=said):
        agent_python(agent, context)
    assert not [path for path in (context.folders.cache / "environments").iterdir() if not path.name.startswith(".")]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"integrity": ""}, "has no digest"),
        ({"integrity": "md5-abcd sha512-abcd"}, "has no digest"),
        ({"link": True}, "does not come from a registry"),
        ({"resolved": "git+ssh://git@host/a.git"}, "does not come from a registry"),
        ({"resolved": "https://me:word@host/a.tgz"}, "does not come from a registry"),
        ({"version": "../1"}, "has no name and version"),
    ],
)
def test_a_lock_that_does_not_pin_its_packages_is_refused(
    tmp_path: Path, registry: Registry, facts: dict[str, Any], said: str
) -> None:
    registry.add("tool", {})
    registry.lock["node_modules/tool"] |= facts
    agent = npm_agent(tmp_path, registry)
    with pytest.raises(UserError, match=said) as caught:
        NpmLock.of(agent, agent.folder)
    assert "package-lock.json" in str(caught.value) and "npm install --package-lock-only" in str(caught.value)


def test_places_outside_are_refused(tmp_path: Path, registry: Registry) -> None:
    registry.add("tool", {})
    for place in ("node_modules/../x", "/etc/x", "../x", "packages/own"):
        registry.lock = {place: {"version": "1.0.0", "integrity": registry.lock.popitem()[1]["integrity"]}}
        agent = npm_agent(tmp_path / place.replace("/", "_"), registry)
        with pytest.raises(UserError, match="is not at a place below node_modules"):
            NpmLock.of(agent, agent.folder)


def test_mistakes_in_the_description_are_one_line(tmp_path: Path, registry: Registry) -> None:
    registry.add("tool", {})
    agent = npm_agent(tmp_path / "a", registry, node="22")
    with pytest.raises(UserError, match=rf"wants Node 22, and the lock does not bring it.*node-linux-{OWN}@22"):
        NpmLock.of(agent, agent.folder)
    agent = npm_agent(tmp_path / "b", registry, npm_scripts=["tol"])
    with pytest.raises(UserError, match=r"npm_scripts`: 'tol' is not a package"):
        NpmLock.of(agent, agent.folder)
    with pytest.raises(UserError, match=r"environment.npm`: 'other.json' is not a file in the agent's folder"):
        make_agent(tmp_path / "c", "", environment={"npm": "other.json"})
    with pytest.raises(UserError, match=r"environment.npm`: is empty"):
        make_agent(tmp_path / "d", "", environment={"node": "22"})
    for text in ("[]", "no json", '{"lockfileVersion": 1, "packages": {}}'):
        write_files(agent.folder, {"package-lock.json": text})
        with pytest.raises(UserError, match="npm install --package-lock-only"):
            NpmLock.of(agent, agent.folder)


def test_the_registry_is_the_owners(tmp_path: Path, bubblewrap: Sandbox) -> None:
    """Its variable, then its files; no token is read. Without a lock of npm it is not reached at all."""
    write_files(tmp_path, {".npmrc": "//npm.test/:_authToken=secret\nregistry = https://npm.test/all/\n"})
    env = {"PIP_CONFIG_FILE": os.devnull, "HOME": str(tmp_path)}
    found = package_sources(bubblewrap, env, npm=True)
    assert found.npm_registry == "https://npm.test/all/"
    assert "secret" not in json.dumps(found.variables) and "npm.test:443" in map(str, found.origins)
    assert not any(found.origins.values())
    env["npm_config_registry"] = "http://127.0.0.1:4873/"
    assert package_sources(bubblewrap, env, npm=True).npm_registry == "http://127.0.0.1:4873/"
    assert [str(it) for it in package_sources(bubblewrap, env).origins] == [
        "pypi.org:443",
        "files.pythonhosted.org:443",
    ]
