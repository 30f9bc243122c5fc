"""The one database server of a test run: a given one, a container, or an embedded one."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from psycopg.conninfo import conninfo_to_dict

from tidemill.local import postgres

URL_VARIABLE = "TIDEMILL_TEST_DATABASE_URL"
IMAGE = "postgres:18-alpine"
# No vacuum on its own: what a plan is made of changes when a test says so, not when a timer does.
EMBEDDED_SETTINGS = {"max_connections": "300", "shared_buffers": "256MB", "max_wal_size": "4GB", "autovacuum": "off"}


@dataclass(frozen=True)
class TestServer:
    """A running server. `dsn` is a superuser's (or at least one that may create databases)."""

    dsn: str
    stop: Callable[[], None]


def kind() -> str:
    """Which server this run uses, in words, without starting it."""
    if url := os.environ.get(URL_VARIABLE):
        fields = conninfo_to_dict(url)
        return f"{URL_VARIABLE} ({fields.get('host', 'local')}:{fields.get('port', '5432')})"
    if docker_answers():
        return f"testcontainers ({IMAGE})"
    return "embedded Postgres (Docker does not answer; fsync off)"


def start() -> TestServer:
    """The server that `kind()` names, ready for connections."""
    if url := os.environ.get(URL_VARIABLE):
        return TestServer(url, lambda: None)
    if docker_answers():
        return _container()
    server = postgres.start(None, settings=EMBEDDED_SETTINGS, fsync=False)
    return TestServer(server.dsn, server.stop)


def docker_answers() -> bool:
    """Is there a Docker engine behind the usual address? Asked with one connection, no client library."""
    address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    parts = urlsplit(address)
    try:
        if parts.scheme == "unix":
            if not Path(parts.path).exists():
                return False
            probe = socket.socket(socket.AF_UNIX)
            probe.settimeout(2)
            probe.connect(parts.path)
        else:
            probe = socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 2375), timeout=2)
        with probe:
            probe.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in probe.recv(64)
    except OSError:
        return False


def _container() -> TestServer:
    from testcontainers.postgres import PostgresContainer

    more = "-c max_connections=300 -c autovacuum=off"
    container = PostgresContainer(IMAGE, driver=None).with_command(f"postgres -c fsync=off -c full_page_writes=off {more}")
    container.start()
    return TestServer(container.get_connection_url(), container.stop)
