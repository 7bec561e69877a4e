"""The forwarding of a job's connections: nothing is lost, and no number of them takes more than one thread."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.guest.forwarding import forward, listen

BIG = bytes(range(256)) * (1 << 14)


@contextlib.contextmanager
def serving(path: Path, answer: Callable[[socket.socket], None], backlog: int = 64) -> Iterator[socket.socket]:
    """A Unix socket whose connections are each answered in a thread, and the port that leads to it."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen(backlog)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    listener = listen()
    try:
        yield listener
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def echo(connection: socket.socket) -> None:
    with contextlib.suppress(OSError), connection:
        while data := connection.recv(1 << 16):
            connection.sendall(data)


def connect(listener: socket.socket) -> socket.socket:
    return socket.create_connection(listener.getsockname(), 30)


def received(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_both_directions_carry_everything_and_a_half_closed_connection_still_answers(tmp_path: Path) -> None:
    def answer(connection: socket.socket) -> None:
        with connection:
            connection.sendall(received(connection)[::-1])

    with serving(tmp_path / "s", answer) as listener:
        forward(listener, str(tmp_path / "s"))
        with connect(listener) as connection:
            connection.sendall(BIG)
            connection.shutdown(socket.SHUT_WR)
            assert received(connection) == BIG[::-1]


def test_a_slow_reader_loses_nothing_and_holds_up_no_other(tmp_path: Path) -> None:
    def answer(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.sendall(BIG)

    with serving(tmp_path / "s", answer) as listener:
        forward(listener, str(tmp_path / "s"))
        with connect(listener) as slow:
            for _ in range(5):
                with connect(listener) as quick:
                    assert received(quick) == BIG
            assert received(slow) == BIG


def test_many_connections_take_one_thread_and_those_over_the_limit_wait(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen(100)
        listener, before = listen(), threads()
        forward(listener, str(tmp_path / "s"), most=50)
        connections = [connect(listener) for _ in range(80)]
        for connection in connections:
            connection.sendall(b"x")
        assert threads() <= before + 1
        for connection in connections:
            connection.close()

    with serving(tmp_path / "e", echo) as listener:
        forward(listener, str(tmp_path / "e"), most=2)
        held = [connect(listener), connect(listener)]
        for connection in held:
            connection.sendall(b"held")
            assert connection.recv(10) == b"held"
        with connect(listener) as third:
            third.sendall(b"third")
            third.settimeout(0.3)
            with pytest.raises(TimeoutError):
                third.recv(10)
            held.pop().close()
            third.settimeout(30)
            assert third.recv(10) == b"third"
        held.pop().close()


def test_a_full_listener_behind_holds_up_no_other_connection(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(0)
        listener = listen()
        forward(listener, str(path))
        with connect(listener) as first:
            first.sendall(b"first")
            accepted = server.accept()[0]
            assert accepted.recv(10) == b"first"
            crowd = [connect(listener) for _ in range(5)]
            time.sleep(0.2)
            first.sendall(b"again")
            assert accepted.recv(10) == b"again"
            for connection in crowd:
                connection.sendall(b"late")
            for _ in crowd:
                with server.accept()[0] as late:
                    assert late.recv(10) == b"late"
                    late.sendall(b"seen")
            for connection in crowd:
                assert connection.recv(10) == b"seen"
                connection.close()
            accepted.close()


def test_where_nothing_listens_a_connection_is_closed_and_the_next_one_is_tried_again(tmp_path: Path) -> None:
    path, listener = tmp_path / "s", listen()
    forward(listener, str(path))
    with connect(listener) as connection, contextlib.suppress(ConnectionResetError):
        assert connection.recv(10) == b""
    with serving(path, echo), connect(listener) as connection:
        connection.sendall(b"now")
        assert connection.recv(10) == b"now"


def test_a_connection_that_is_reset_frees_its_place(tmp_path: Path) -> None:
    with serving(tmp_path / "s", echo) as listener:
        forward(listener, str(tmp_path / "s"), most=1)
        for _ in range(20):
            connection = connect(listener)
            connection.sendall(b"x")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()
        with connect(listener) as connection:
            connection.sendall(b"on")
            assert connection.recv(10) == b"on"
