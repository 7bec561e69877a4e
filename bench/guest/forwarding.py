"""Copies connections of a port of loopback to a Unix socket, all of them in one thread.

A thread for each would count among the tasks of the job: many connections would end it.
"""

from __future__ import annotations

# Importing `typing` would take a third of the time that the first process needs to start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

MAX_CONNECTIONS = 200
"""Of one socket at a time: more wait."""
_CHUNK = 65536
_NAMES_PORT = 53
_LARGEST_QUERY = 4096
_AGAIN_S = 0.05


def listen() -> socket.socket:
    """A listener on a free port of loopback."""
    import socket

    return socket.create_server(("127.0.0.1", 0), backlog=128)


def forward(listener: socket.socket, path: str, most: int = MAX_CONNECTIONS) -> None:
    """Copy each connection to the Unix socket at `path`, `most` at a time: more wait.

    Raises RuntimeError when the job has taken all threads there are.
    """
    import threading

    threading.Thread(target=_Forwarding(listener, path, most).serve, daemon=True).start()


def name_server() -> list[socket.socket]:
    """Sockets at the address where programs without settings look for a name server.

    Empty within bubblewrap: its network belongs to another user namespace than the job, which may not have ports so
    low. See `lent_name_server`.
    """
    import socket

    found = []
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            server = socket.socket(family, socket.SOCK_DGRAM)
            server.bind((address, _NAMES_PORT))
        except OSError:
            continue
        found.append(server)
    return found


def lent_name_server(descriptor: int) -> list[socket.socket]:
    """The same, bound by a process outside to which the socket `descriptor` leads; empty where it may not either.

    It is sent this network before the job's command runs, and enters it.
    """
    import os
    import socket

    found: list[int] = []
    network = os.open("/proc/self/ns/net", os.O_RDONLY)
    with socket.socket(fileno=descriptor) as outside:
        try:
            socket.send_fds(outside, [b"1"], [network])
            _, found, _, _ = socket.recv_fds(outside, 1, 2)
        except OSError:
            found = []
    os.close(network)
    return [socket.socket(fileno=it) for it in found]


def answer_names(servers: list[socket.socket], path: str) -> None:
    """Answer every query with "no such name", and pass it on to the Unix datagram socket at `path`."""
    import threading

    for server in servers:
        threading.Thread(target=_answer_names, args=(server, path), daemon=True).start()


def _answer_names(server: socket.socket, path: str) -> None:
    import contextlib
    import socket

    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.setblocking(False)
    while True:
        query, asking = server.recvfrom(_LARGEST_QUERY)
        # Whoever asks faster than anybody can read loses the count, not the answer.
        with contextlib.suppress(OSError):
            told.sendto(query, path)
        end = 12
        while end < len(query) and query[end]:
            end += query[end] + 1
        # Behind the name: its end, a type and a class.
        question = query[12 : end + 5]
        if len(query) < 12 or end + 5 > len(query):
            continue
        # An answer (0x80) of ours to the question as it was asked, "no such name" (3), with nothing in it.
        flags = bytes([(query[2] & 0x79) | 0x80, 0x83])
        try:
            server.sendto(query[:2] + flags + b"\0\1" + bytes(6) + question, asking)
        except OSError:
            continue


class _Way:
    """One direction of a connection: what has come from `source` and is not yet in `sink`."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self.sink = sink
        self.rest = memoryview(b"")
        self.ended = False

    def read(self) -> None:
        try:
            data = self.source.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        self.rest = memoryview(data)
        self.write()

    def write(self) -> None:
        try:
            self.rest = self.rest[self.sink.send(self.rest) :]
        except BlockingIOError:
            return
        except OSError:
            self.rest = memoryview(b"")
            self._end()

    def _end(self) -> None:
        import socket

        self.ended = True
        for end, how in ((self.sink, socket.SHUT_WR), (self.source, socket.SHUT_RD)):
            try:
                end.shutdown(how)
            except OSError:
                continue


class _Pair:
    """A connection of the job and the one that was opened for it."""

    def __init__(self, client: socket.socket, upstream: socket.socket) -> None:
        self.ends = (client, upstream)
        self._ways = (_Way(client, upstream), _Way(upstream, client))

    def ended(self) -> bool:
        return all(way.ended for way in self._ways)

    def wanted(self, end: socket.socket) -> int:
        """The events of `end` to wait for: nothing is read while what was read before has not gone on."""
        import selectors

        events = 0
        for way in self._ways:
            if way.source is end and not way.ended and not way.rest:
                events |= selectors.EVENT_READ
            if way.sink is end and way.rest:
                events |= selectors.EVENT_WRITE
        return events

    def handle(self, end: socket.socket, events: int) -> None:
        import selectors

        for way in self._ways:
            if way.sink is end and way.rest and events & selectors.EVENT_WRITE:
                way.write()
            if way.source is end and not way.rest and not way.ended and events & selectors.EVENT_READ:
                way.read()


class _Forwarding:
    """All connections of one listener."""

    def __init__(self, listener: socket.socket, path: str, most: int) -> None:
        import selectors

        self._listener = listener
        self._path = path
        self._most = most
        self._selector = selectors.DefaultSelector()
        self._open = 0
        self._waiting: list[tuple[socket.socket, socket.socket]] = []
        """Connections for which the listener at the path has no room yet."""
        self._rests = False
        """Whether no connection can be taken for now, such as for want of descriptors."""

    def serve(self) -> None:
        self._listener.setblocking(False)
        while True:
            self._listen()
            for key, events in self._selector.select(_AGAIN_S if self._waiting or self._rests else None):
                if key.data is None:
                    self._accept()
                else:
                    pair, end = key.data
                    self._copy(pair, end, events)
            self._rests = False
            waiting, self._waiting = self._waiting, []
            for client, upstream in waiting:
                self._connect(client, upstream)

    def _listen(self) -> None:
        import selectors

        takes = self._open < self._most and not self._rests
        self._watch(self._listener, selectors.EVENT_READ if takes else 0)

    def _watch(self, end: socket.socket, events: int, pair: _Pair | None = None) -> None:
        data = None if pair is None else (pair, end)
        known = self._selector.get_map().get(end)
        if known is None and events:
            self._selector.register(end, events, data)
        elif known is not None and not events:
            self._selector.unregister(end)
        elif known is not None and known.events != events:
            self._selector.modify(end, events, data)

    def _accept(self) -> None:
        import socket

        try:
            upstream = socket.socket(socket.AF_UNIX)
            client, _ = self._listener.accept()
        except OSError:
            self._rests = True
            return
        client.setblocking(False)
        upstream.setblocking(False)
        self._open += 1
        self._connect(client, upstream)

    def _connect(self, client: socket.socket, upstream: socket.socket) -> None:
        try:
            upstream.connect(self._path)
        except BlockingIOError:
            self._waiting.append((client, upstream))
        except OSError:
            # Nothing listens there.
            client.close()
            upstream.close()
            self._open -= 1
        else:
            pair = _Pair(client, upstream)
            for end in pair.ends:
                self._watch(end, pair.wanted(end), pair)

    def _copy(self, pair: _Pair, end: socket.socket, events: int) -> None:
        if end.fileno() < 0:
            # Closed by what was ready on the other end.
            return
        pair.handle(end, events)
        for one in pair.ends:
            self._watch(one, pair.wanted(one), pair)
        if pair.ended():
            self._open -= 1
            for one in pair.ends:
                one.close()
