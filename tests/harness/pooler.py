"""A transaction pooler in the test process: what RDS Proxy and PgBouncer do to a client that keeps session state.

Each transaction may run on another backend than the last (they take turns), as soon as the server says that none is open.
Named prepared statements, which such a pooler cannot carry over, are noted in `violations`.
"""

import contextlib
import queue
import select
import socket
import struct
import threading
from types import TracebackType

from psycopg import pq

from harness.databases import as_url

_SSL_REQUEST, _GSS_REQUEST, _CANCEL = 80877103, 80877104, 80877102
_ANSWERED = {b"Q", b"S", b"F"}  # Query, Sync, FunctionCall: each is answered by one ReadyForQuery
_GREETING = {
    b"server_version": b"18.0", b"server_encoding": b"UTF8", b"client_encoding": b"UTF8",
    b"DateStyle": b"ISO, MDY", b"integer_datetimes": b"on", b"standard_conforming_strings": b"on", b"TimeZone": b"UTC",
}  # fmt: skip


class Pooler:
    """Serves `dsn` to any number of clients over `size` backends. A context manager."""

    def __init__(self, dsn: str, *, size: int = 3) -> None:
        self.violations: list[str] = []
        self._target = dsn
        self._idle: queue.Queue[_Backend] = queue.Queue()
        for _ in range(size):
            self._idle.put(_Backend(dsn))
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.dsn = as_url(dsn, host="127.0.0.1", port=str(port), sslmode="disable", gssencmode="disable")
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> "Pooler":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in list(self._threads):
            thread.join(120)
        while not self._idle.empty():
            self._idle.get().close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(client,), daemon=True))
            self._threads[-1].start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(ConnectionError):
            if _greet(client):
                stream = _Messages(client)
                while (message := stream.next()) and message[:1] != b"X":
                    self._transaction(client, stream, message)

    def _transaction(self, client: socket.socket, stream: "_Messages", first: bytes) -> None:
        backend = self._idle.get()
        try:
            self._relay(client, stream, backend, first)
        except BaseException:
            backend.close()
            backend = _Backend(self._target)
            raise
        finally:
            self._idle.put(backend)

    def _relay(self, client: socket.socket, stream: "_Messages", backend: "_Backend", first: bytes) -> None:
        """Pass messages both ways until no answer is owed and no transaction is open."""
        owed = self._forward(backend, first)
        status = b"I"
        while owed > 0 or status != b"I":
            if stream.has_next() or client in (ready := select.select([client, backend.socket], [], [])[0]):
                message = stream.next()
                if not message or message[:1] == b"X":
                    raise ConnectionError("the client left with a transaction open")
                owed += self._forward(backend, message)
                continue
            if backend.socket in ready:
                while True:
                    answer = backend.stream.next()
                    if not answer:
                        raise ConnectionError("the server closed the connection")
                    client.sendall(answer)
                    if answer[:1] == b"Z":
                        owed, status = owed - 1, answer[5:6]
                    if not backend.stream.has_next():
                        break

    def _forward(self, backend: "_Backend", message: bytes) -> int:
        if message[:1] == b"P" and message[5:6] != b"\0":
            self.violations.append(f"prepared statement {message[5 : message.index(0, 5)].decode()}")
        backend.socket.sendall(message)
        return int(message[:1] in _ANSWERED)


class _Backend:
    """One connection to the server: libpq logs in, then its socket is used as it is."""

    def __init__(self, dsn: str) -> None:
        self._libpq = pq.PGconn.connect(dsn.encode())
        if self._libpq.status != pq.ConnStatus.OK:
            raise ConnectionError(self._libpq.error_message.decode())
        self.socket = socket.socket(fileno=socket.dup(self._libpq.socket))
        self.socket.setblocking(True)
        self.stream = _Messages(self.socket)

    def close(self) -> None:
        self.socket.close()
        self._libpq.finish()


class _Messages:
    """Whole protocol messages (type byte, length, body) from a socket; b"" when it is closed."""

    def __init__(self, source: socket.socket) -> None:
        self._source, self._buffer = source, b""

    def has_next(self) -> bool:
        """Is a whole message already here?"""
        return len(self._buffer) >= 5 and len(self._buffer) > struct.unpack_from("!I", self._buffer, 1)[0]

    def next(self) -> bytes:
        while not self.has_next():
            received = self._source.recv(65536)
            if not received:
                return b""
            self._buffer += received
        end = 1 + struct.unpack_from("!I", self._buffer, 1)[0]
        message, self._buffer = self._buffer[:end], self._buffer[end:]
        return message


def _greet(client: socket.socket) -> bool:
    """Answer the start of a connection; False for what is no session (a cancel request, nothing)."""
    while True:
        head = client.recv(8, socket.MSG_WAITALL)
        if len(head) < 8:
            return False
        length, code = struct.unpack("!II", head)
        if code in (_SSL_REQUEST, _GSS_REQUEST):
            client.sendall(b"N")
            continue
        client.recv(length - 8, socket.MSG_WAITALL)
        if code == _CANCEL:
            return False
        break
    answer = b"R" + struct.pack("!II", 8, 0)
    for name, value in _GREETING.items():
        answer += b"S" + struct.pack("!I", 4 + len(name) + len(value) + 2) + name + b"\0" + value + b"\0"
    answer += b"K" + struct.pack("!III", 12, 0, 0) + b"Z" + struct.pack("!I", 5) + b"I"
    client.sendall(answer)
    return True
