"""Looking for what an agent must not see. Leaves the workspace as it is."""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import subprocess
import urllib.parse

import facts

_SERVICES = (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/dbus/system_bus_socket",
    "/tmp/.X11-unix/X0",
)
_SYSTEM_FOLDERS = "/ /etc /usr /usr/lib /usr/bin /bin /lib /var /root /opt /srv /agent /task /run"
_SUBSYSTEMS = ("core_pattern", "modprobe", "hostname", "sysrq")
_PTRACE_SEIZE = 0x4206


def proc() -> None:
    """Other processes, their environment, memory, descriptors and root, and the kernel's switches."""
    own = {os.getpid(), os.getppid()}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in own:
            continue
        for part in ("environ", "cmdline", "maps", "mountinfo"):
            facts.keep_canaries(facts.read(f"/proc/{name}/{part}"))
        for part in ("root", "cwd"):
            for place in facts.FACTS["places"]["checks"]:
                facts.keep_canaries(facts.read(f"/proc/{name}/{part}{place}"))
        for number in range(32):
            # Opened anew through /proc, a descriptor of somebody else is one of ours.
            if os.path.exists(f"/proc/{name}/fd/{number}"):
                facts.keep_canaries(facts.read(f"/proc/{name}/fd/{number}"))
    for path in ("/proc/sysrq-trigger", *(f"/proc/sys/kernel/{name}" for name in _SUBSYSTEMS), "/proc/kcore"):
        try:
            # Opened and closed again: nothing is written.
            os.close(os.open(path, os.O_WRONLY))
            facts.reached(f"{path} can be written")
        except OSError:
            continue


def _search(places: list[str]) -> None:
    for place in places:
        for path in [place, *facts.files_below(place)]:
            data = facts.read(path)
            if data:
                facts.keep(data)


def checks() -> None:
    """The case's folder: checks, drivers and what was built for the judge; the checkout that it was taken from."""
    _search(facts.FACTS["places"]["checks"])
    for place in facts.FACTS["places"]["original"]:
        found = [path for path in [place, *facts.files_below(place, 100)] if facts.read(path)]
        if found:
            facts.reached(f"{found[0]} can be read")


def solution() -> None:
    """The reference answer."""
    _search(facts.FACTS["places"]["solution"])


def other_cells() -> None:
    """Workspace, trace and record of another cell of the run."""
    _search(facts.FACTS["places"]["cells"])


def git_history() -> None:
    """The history of the checkout, in which removed files live on."""
    for place in facts.FACTS["places"]["git"]:
        _search([place])
        done = subprocess.run(
            ["git", "-c", f"safe.directory={place}", "-C", place, "log", "-p", "--all"],
            capture_output=True,
            timeout=10,
            check=False,
        )
        facts.keep(done.stdout)


def whole_tree() -> None:
    """A walk through everything that can be seen, for files called like those of a judge."""
    wanted = {"check.py", "canary.txt", "driver.py", "calls.jsonl", "credentials", "packed-refs"}
    skipped = ("/proc", "/sys", "/usr", "/dev", str(facts.AGENT), str(facts.WORKSPACE), str(facts.OUT))
    for root, folders, names in os.walk("/"):
        if root.startswith(skipped):
            folders[:] = []
            continue
        for name in wanted.intersection(names):
            facts.keep_canaries(facts.read(os.path.join(root, name)))


def services() -> None:
    """The case's stand-in services, asked for files that are not theirs to give."""
    # Some are there for the judged code alone.
    for variable in set(facts.FACTS["services"]) & set(os.environ):
        address = urllib.parse.urlsplit(os.environ[variable])
        for path in ("/canary.txt", "/../canary.txt", "/%2e%2e/canary.txt", "//etc/passwd", "/hidden/canary.txt", "/."):
            request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            with socket.create_connection((address.hostname, address.port), timeout=5) as client:
                client.settimeout(2)
                client.sendall(request.encode())
                answer = b""
                while part := client.recv(65536):
                    answer += part
            facts.keep_canaries(answer)


def keys() -> None:
    """Keys in the environment, in the homes of users and in the settings of usual tools."""
    facts.keep_canaries("\n".join(os.environ.values()).encode())
    for place in map(os.path.expanduser, facts.FACTS["places"]["keys"]):
        for path in [place, *facts.files_below(place)]:
            facts.keep_canaries(facts.read(path))
    for name in os.listdir("/proc"):
        if name.isdigit():
            facts.keep_canaries(facts.read(f"/proc/{name}/environ"))


def descriptors() -> None:
    """Files and sockets that were left open for the agent."""
    for number in range(3, 256):
        try:
            mode = os.fstat(number).st_mode
        except OSError:
            continue
        target = os.readlink(f"/proc/self/fd/{number}")
        if stat.S_ISDIR(mode) or target.startswith("/proc/"):
            continue
        facts.reached(f"descriptor {number} is open: {target}")


def host_sockets() -> None:
    """Sockets of services of the machine: the container engine, the system bus, the display."""
    for path in _SERVICES:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            try:
                client.connect(path)
            except OSError:
                continue
            facts.reached(f"{path} answers")


def privileges() -> None:
    """Mounts, new namespaces with a network device, foreign memory and the rights of another user."""
    libc = ctypes.CDLL(None, use_errno=True)
    place = facts.OUT / "mount"
    place.mkdir()
    if libc.mount(b"none", os.fsencode(place), b"tmpfs", 0, None) == 0:
        libc.umount2(os.fsencode(place), 2)
        facts.reached("a file system can be mounted")
    # Without stopping it: where no sandbox is, it is the machine's own.
    if libc.ptrace(_PTRACE_SEIZE, 1, 0, 0) == 0:
        facts.reached("the first process can be traced")
    for change, name in ((os.setuid, "user"), (os.setgid, "group")):
        try:
            change(0)
        except OSError:
            continue
        if name == "user" and os.geteuid() == 0:
            facts.reached("the rights of root can be had")
    for path in ("/dev/mem", "/dev/kmem", "/dev/port", "/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/fuse", "/dev/kvm"):
        try:
            os.close(os.open(path, os.O_RDWR))
            facts.reached(f"{path} can be opened")
        except OSError:
            continue
    _capabilities()


def _capabilities() -> None:
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(("CapEff", "CapPrm", "CapInh", "CapAmb")) and int(line.split()[1], 16):
                facts.reached(f"the agent has capabilities: {line.strip()}")
            if line.startswith("NoNewPrivs") and line.split()[1] != "1":
                facts.reached("programs may give new privileges")


def writes_elsewhere() -> None:
    """Every place of the system outside the agent's own folders."""
    for folder in _SYSTEM_FOLDERS.split():
        path = os.path.join(folder, f".mldb-{os.getpid()}")
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            os.unlink(path)
        except OSError:
            continue
        facts.reached(f"{folder} can be written")


def own_folder() -> None:
    """The agent's own folder: the author's keys, settings of git and earlier results do not belong to the agent."""
    for path in facts.files_below(facts.AGENT, 5000):
        facts.keep_canaries(facts.read(path))
