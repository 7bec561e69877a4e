"""Isolation by containers: an image of its own as the system, no network, an engine that enforces the limits."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.base.errors import InfraError, UserError
from bench.base.files import temporary_folder
from bench.sandbox.cgroup import Owner, memory_cap_mb
from bench.sandbox.docker.client import find_engine
from bench.sandbox.docker.container import IMAGE_PYTHON, Parts, User, container
from bench.sandbox.docker.control import Belongings, DockerControl, change_owner
from bench.sandbox.docker.engine import Engine
from bench.sandbox.docker.guest_python import guest_python
from bench.sandbox.docker.images import case_image, shared_image
from bench.sandbox.docker.own_image import OwnImage, in_own_image, own_image
from bench.sandbox.gpu import GPU_LIMIT
from bench.sandbox.job import GUEST, GUEST_LIBRARY, GUEST_PRIVATE, OWN_ETC, Job, Launch, Mount
from bench.sandbox.orders import orders_for

_ATTENDANT = Path(__file__).resolve().parent / "attendant.py"
_ENFORCEMENT = "memory, pids, cpu by the engine; system calls filtered by the engine"
_UNPRIVILEGED = range(60_700, 61_180)
"""Users of jobs where the runner is root: of a range that neither Debian nor systemd hands out.

Each job has the next one. What the kernel counts by user (watchers of files, timers, descriptors under way in sockets)
could otherwise be used up by one job for all.
"""
_users = itertools.count(os.getpid())


class DockerSandbox:
    """A job in a container of its own, made for it and removed after it."""

    name = "docker"
    isolated = True
    private: Sequence[str] = GUEST_PRIVATE
    library = GUEST_LIBRARY

    def __init__(self, engine: Engine | None = None, image: str | None = None) -> None:
        """Raises `UserError` when there is no engine, or no image on it.

        image: content id; default: that of the shared image.
        """
        self._engine = engine or find_engine()
        self.image = image or shared_image(self._engine.image_id)

    @property
    def other_user(self) -> bool:
        # Elsewhere they run as this one, under whatever number.
        return os.getuid() == 0

    def guest_path(self, mount: Mount) -> str:
        return mount.target

    def interpreter(self, python: Path) -> str:
        return IMAGE_PYTHON if python == Path(sys.executable) else str(python)

    def launch(self, job: Job) -> Launch:
        for mount in job.mounts:
            if not mount.source.exists():
                raise InfraError("sandbox_error", f"the docker sandbox did not start: no file {mount.source}")
        image = self._image(job)
        name = Owner.this().new_name()
        user = self._user()
        own = self._prepare(job, name, image, user)
        argv = [sys.executable, "-I", "-S", "-B", str(_ATTENDANT), *map(str, own.handed_over)]

        control = partial(DockerControl, self._engine, name, own, memory_cap_mb(job.limits))
        enforcement = _ENFORCEMENT + (GPU_LIMIT if job.cell_environment.gpu is not None else "")
        return Launch(argv, {}, control, own.give_back, own.handed_over, enforcement)

    def _image(self, job: Job) -> str | OwnImage:
        if not job.image:
            return case_image(self._engine, self.image, job.cell_environment.environment)
        try:
            return own_image(self._engine, job.image)
        except UserError as error:
            raise InfraError("needs_missing", str(error)) from None

    def _user(self) -> User:
        uid = os.getuid()
        if uid == 0:
            own = _UNPRIVILEGED[next(_users) % len(_UNPRIVILEGED)]
            return User(own, own)
        if self._engine.address.stat().st_uid == uid:
            # A rootless engine maps this user to root in the guest, which has only this user's rights here.
            return User(0, 0)
        return User(uid, os.getgid())

    def _prepare(self, job: Job, name: str, image: str | OwnImage, user: User) -> Belongings:
        hold = contextlib.ExitStack()
        if job.scratch is not None:
            folder = Path(tempfile.mkdtemp(prefix="mldb-docker-", dir=job.scratch))
        else:
            folder = hold.enter_context(temporary_folder("docker"))
        lent: list[Path] = []
        if os.getuid() == 0:
            lent = [mount.source for mount in job.mounts if mount.writable]
            change_owner([*lent, *job.sockets.values()], user.uid, user.gid)
        parts = _parts(name, image, user, folder)
        guest = orders_for(job, Path(self.interpreter(job.python or Path(sys.executable))))
        orders = {
            "engine": str(self._engine.address),
            "name": name,
            "own_image": parts.own is not None,
            "container": container(job, parts),
            "guest": {
                **(guest if parts.own is None else in_own_image(guest, job, parts.own)),
                "folder": job.cwd.target,
                # The bases of environments: an environment itself holds what its build has put there.
                "interpreters": [str(path.resolve()) for path in job.interpreters],
            },
        }
        descriptor = os.memfd_create("orders")
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(json.dumps(orders).encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        return Belongings(folder, _listener(parts.control), descriptor, lent, hold)


def _parts(name: str, image: str | OwnImage, user: User, folder: Path) -> Parts:
    etc, control, library = _system_files(folder, user), folder / "control", _library(folder / "library")
    if isinstance(image, str):
        return Parts(name, image, user, control, library, etc)
    # What the image's loader puts into every program stays out of our first process.
    etc["ld.so.preload"] = folder / "ld.so.preload"
    etc["ld.so.preload"].touch(mode=0o644)
    return Parts(name, image.content, user, control, library, etc, own=image, python=guest_python())


def _listener(path: Path) -> int:
    """Descriptor of a socket that only the container can reach, since other users may not enter its folder."""
    listener = socket.socket(socket.AF_UNIX)
    folder = os.open(path.parent, os.O_PATH)
    try:
        # The name of a socket has at most 107 bytes, however long the way to it is.
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
    path.chmod(0o666)
    listener.listen(1)
    return listener.detach()


def _library(folder: Path) -> Path:
    """The import root of the first process, whole: what an image has at its place is never imported."""
    (folder / "bench" / GUEST.name).mkdir(parents=True)
    (folder / "bench" / "__init__.py").touch()
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def _system_files(folder: Path, user: User) -> dict[str, Path]:
    """Files for /etc: the job's user has a name, and neither this machine's name servers nor its name are told."""
    texts = {path.name: path.read_text() for path in OWN_ETC.iterdir()}
    texts["passwd"] = texts["passwd"].replace("1000:1000", f"{user.uid}:{user.gid}")
    texts["group"] = texts["group"].replace("1000", str(user.gid))
    texts["resolv.conf"] = ""
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)
    return {name: folder / name for name in texts}
