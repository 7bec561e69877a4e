"""The agent's own packages: installed in a sandbox, once per content, and never executed outside of one.

The build sees the requirements, the configured indexes and a proxy, and writes to the folder of the environment alone.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.base.errors import InfraError
from bench.base.files import lock, sha256_bytes, temporary_folder, write_atomic
from bench.base.times import now
from bench.cell.build_progress import BuildProgress, Waiting
from bench.cell.context import CellContext
from bench.cell.interpreter import Interpreter, find_interpreter, own_interpreter
from bench.cell.package_index import PackageSources, package_sources
from bench.cell.wanted_packages import NpmLock, Requirements, lines
from bench.formats.agent import Agent
from bench.guest import npm_install
from bench.guest.trees import remove_tree, stays_within
from bench.sandbox import CellEnvironment, Ended, Job, JobLimits, Mount, run_job

if TYPE_CHECKING:
    from bench.cell.egress import Egress

_VERSION = b"2"
"""Of how environments are built: another one is another environment."""
_NPM_VERSION = b"1"
"""Of how packages of npm are installed."""
_NPM_FOLDER = "/build/npm"
_LIMITS = JobLimits(wall_s=1800, memory_mb=8192, cpus=4, processes=1024, open_files=4096, disk_mb=16384, output_mb=4)
_MAX_ENTRIES = 500_000
_MAX_DEPTH = 100
_MAX_BYTES = 1 << 20
_MAX_LINE = 20_000
_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
_TOLD_BYTES = 1500


def agent_python(agent: Agent, context: CellContext) -> Path:
    """The interpreter of `agent`'s own packages; builds its environment on first use.

    A second caller waits for the first, in this process or another. Raises `UserError` when the wanted
    Python is not on this machine, `InfraError` when packages do not install.
    """
    wanted = agent.spec.environment
    if not wanted.python and not wanted.requirements and not wanted.npm:
        return Path(sys.executable)
    base = find_interpreter(wanted.python, agent.file) if wanted.python else own_interpreter(agent.file)
    staged = agent.staged(context.staged(agent))
    needs, npm = Requirements.of(agent, staged), NpmLock.of(agent, staged)
    place = context.folders.cache / "environments" / f"{agent.id}-{_digest(agent, base, needs, npm, context)}"
    build = _Build(agent, base, needs, npm, context, place)
    with lock(place.with_name(f".{place.name}.lock"), waiting=Waiting(build.tell)):
        if not build.is_complete():
            build.run()
    return place / "bin" / "python"


def _digest(agent: Agent, base: Interpreter, needs: Requirements, npm: NpmLock, context: CellContext) -> str:
    """Of everything that decides what gets installed."""
    wanted, sandbox = agent.spec.environment, context.sandbox
    facts = f"{base.path}\0{base.version}\0{platform.machine()}\0{wanted.locked}\0{sandbox.name}\0{sandbox.image}"
    parts = [_VERSION, facts.encode()]
    for name, content in sorted(needs.files.items()):
        parts += [name.encode(), content]
    if needs.local:
        parts.append(agent.digest.encode())
    if npm.content:
        scripts = "\0".join(sorted(wanted.npm_scripts))
        parts += [b"npm", _NPM_VERSION, wanted.node.encode(), scripts.encode(), npm.content]
    # Each with its length: no content can look like two.
    return sha256_bytes(b"".join(b"%d:%b" % (len(part), part) for part in parts))[7:23]


@dataclass(frozen=True)
class _Build:
    """One environment, at the path under which every sandbox shows it, since it does not survive a move."""

    agent: Agent
    base: Interpreter
    needs: Requirements
    npm: NpmLock
    context: CellContext
    place: Path

    def tell(self, line: str, news: bool) -> None:
        """Say what the build does to who watches the run."""
        self.context.watch.building(self.agent.id, line, news=news)

    @property
    def _record(self) -> Path:
        """Written last, outside of what the build can write to."""
        return self.place.with_name(f"{self.place.name}.json")

    def is_complete(self) -> bool:
        """Built to its end, with an interpreter that is still there: the base it links to may have been removed."""
        return self._record.is_file() and (self.place / "bin" / "python").exists()

    def run(self) -> None:
        """Build it; raises `InfraError` when that fails."""
        self._record.unlink(missing_ok=True)
        for left in self.place.parent.glob(f".{self.place.name}.build-*"):
            with suppress(OSError):
                remove_tree(left)
        remove_tree(self.place)
        work = self.place.with_name(f".{self.place.name}.build-{secrets.token_hex(4)}")
        # Without isolation the guest's path is this machine's.
        made = work / "made" if self.context.sandbox.isolated else self.place
        made.mkdir(parents=True)
        try:
            facts = self._install(work, made)
            make_harmless(made, self.place, self.base)
            if made != self.place:
                made.rename(self.place)
            write_atomic(self._record, json.dumps(facts, indent=1).encode() + b"\n")
        except BaseException:
            remove_tree(made)
            raise
        finally:
            with suppress(OSError):
                remove_tree(work)

    def _install(self, work: Path, made: Path) -> dict[str, object]:
        """Run the installer; returns what is written down of it."""
        # Only here: few runs build anything.
        from bench.cell.egress import open_egress

        sandbox, sources = self.context.sandbox, package_sources(self.context.sandbox, npm=bool(self.npm.packages))
        (work / "tmp").mkdir(parents=True)
        self.needs.copy(self.agent, work / "agent")
        target = Mount(made, str(self.place), writable=True)
        scratch = Mount(work / "tmp", "/build/tmp", writable=True)
        folder = Mount(work / "agent", "/agent", writable=True)
        mounts = [target, scratch, folder, *_readable(sources.mounts, work / "sources")]
        if self.npm.packages:
            mounts += self._npm_orders(work, sources)
        with temporary_folder("egress") as sockets, open_egress(sockets / "proxy", sources.origins) as egress:
            progress = self._progress(egress)
            progress.begin()
            for command in self._commands(sandbox.guest_path(folder), work):
                progress.doing = "making the virtual environment" if "venv" in command else "starting"
                job = Job(
                    argv=command,
                    mounts=mounts,
                    cwd=folder,
                    limits=_LIMITS,
                    env=_variables(sources, sandbox.guest_path(scratch)),
                    sockets={"egress": egress.socket},
                    interpreters=[self._base_link(work)],
                    cell_environment=CellEnvironment(run=self.context.provenance.run),
                )
                self._check(command, run_job(sandbox, job, progress.look, seen=progress.read), egress.refused)
            progress.end()
        return {
            "agent": self.agent.id,
            "built": now(),
            "python": self.base.version,
            "sandbox": sandbox.name,
            "isolated": sandbox.isolated,
            "reached": dict(egress.reached),
            "refused": dict(egress.refused),
            "received_bytes": egress.down,
        }

    def _progress(self, egress: Egress) -> BuildProgress:
        wanted = self.agent.spec.environment
        named = {line.split(";")[0] for it in self.needs.files.values() for line in lines(it) if line[0] != "-"}
        count, complete = len(named) + len(self.npm.packages), wanted.locked or not named
        return BuildProgress(self.tell, count, complete, wanted.download_mb, lambda: egress.down)

    def _npm_orders(self, work: Path, sources: PackageSources) -> list[Mount]:
        """What installs the packages of the lock, and its orders."""
        scripts = sorted(self.agent.spec.environment.npm_scripts)
        orders = self.npm.orders(str(self.place), sources.npm_registry, scripts)
        write_atomic(work / "npm" / "orders.json", json.dumps(orders).encode())
        write_atomic(work / "npm" / "install.py", Path(npm_install.__file__).read_bytes())
        (work / "npm").chmod(0o755)
        for path in (work / "npm").iterdir():
            path.chmod(0o644)
        return [Mount(work / "npm", _NPM_FOLDER)]

    def _base_link(self, work: Path) -> Path:
        """Another name for the base: in the place of the benchmark's own interpreter a sandbox may have its own."""
        link = work / "base" / "bin" / "python"
        if not link.is_symlink():
            link.parent.mkdir(parents=True)
            link.symlink_to(self.base.path)
        return link

    def _commands(self, folder: str, work: Path) -> Iterator[list[str]]:
        wanted = self.agent.spec.environment
        bare = [] if wanted.requirements or wanted.python else ["--without-pip"]
        yield [str(self.base.path), "-I", "-m", "venv", *bare, str(self.place)]
        if wanted.requirements:
            install = [f"{self.place}/bin/python", "-I", "-m", "pip", "install", "--progress-bar", "off"]
            locked = ["--no-deps"] if wanted.locked else []
            yield [*install, *locked, "--requirement", f"{folder}/{os.path.normpath(wanted.requirements)}"]
        if self.npm.packages:
            orders = self.context.sandbox.guest_path(Mount(work / "npm", _NPM_FOLDER))
            yield [str(self.base.path), "-I", f"{orders}/install.py", f"{orders}/orders.json"]

    def _check(self, command: list[str], ended: Ended, refused: Mapping[str, int]) -> None:
        if ended.reason == "exit" and ended.code == 0:
            return
        fault = f"status {ended.code}" if ended.reason == "exit" else ended.reason.replace("_", " ")
        said = (ended.stderr.strip() or ended.stdout)[-_TOLD_BYTES:].decode("utf-8", "replace").strip()
        kept = f" (the proxy refused {', '.join(list(refused)[:5])})" if refused else ""
        told = f"{shlex.join(command)}: {fault}{kept}: {said}"
        raise InfraError("environment_error", f"the environment of agent {self.agent.id} could not be built: {told}")


def _variables(sources: PackageSources, scratch: str) -> dict[str, str]:
    """The installer's environment; scratch: where it may write, as it sees it."""
    return {
        **sources.variables,
        **dict.fromkeys(("TMPDIR", "HOME"), scratch),
        **dict.fromkeys(_PROXIES, "http://127.0.0.1:{port:egress}"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INPUT": "1",
        "PYTHONUNBUFFERED": "1",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def make_harmless(root: Path, place: Path, base: Interpreter) -> None:
    """Leave only folders, regular files and links within `root`, which is to lie at `place`, and the link to `base`.

    The runner resolves that link to see what else to mount: it is made here, whatever the build has put there, and so
    is what says where the standard library lies. Nothing of the build lives any more. Raises `InfraError` where there
    is too much to look at.
    """
    pending, count = [(str(root), 0)], 0
    while pending:
        folder, depth = pending.pop()
        with os.scandir(folder) as found:
            entries = list(found)
        count += len(entries)
        if count > _MAX_ENTRIES or depth > _MAX_DEPTH:
            raise InfraError("environment_error", f"an environment has over {_MAX_ENTRIES:,} files, or is too deep")
        for entry in entries:
            info = entry.stat(follow_symlinks=False)
            if stat.S_ISLNK(info.st_mode):
                if not stays_within(entry.path, root, place):
                    os.unlink(entry.path)
                continue
            if not (stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode)):
                os.unlink(entry.path)
                continue
            if stat.S_ISDIR(info.st_mode):
                pending.append((entry.path, depth + 1))
            if info.st_uid != os.getuid():
                os.chown(entry.path, os.getuid(), os.getgid(), follow_symlinks=False)
            os.chmod(entry.path, 0o755 if stat.S_ISDIR(info.st_mode) or info.st_mode & stat.S_IXUSR else 0o644)
    base.stand_in(root)


def _readable(mounts: Sequence[Mount], copies: Path) -> list[Mount]:
    """The same, with files that the sandbox's user can read: the runner's may be the runner's alone."""
    copies.mkdir(exist_ok=True)
    found = []
    for number, mount in enumerate(mounts):
        if mount.source.is_file():
            copy = copies / str(number)
            shutil.copyfile(mount.source, copy)
            copy.chmod(0o644)
            found.append(Mount(copy, mount.target))
        else:
            found.append(mount)
    return found
