"""A worker's own figures over HTTP, for Prometheus: `GET /metrics`, on the loopback address unless told otherwise."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from tidemill.domain.transitions import Event
from tidemill.observe import prometheus
from tidemill.observe.prometheus import Family
from tidemill.runner.heart import memory_mb
from tidemill.version import __version__

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    from tidemill.runner.worker import Worker

LOOPBACK = "127.0.0.1"


def families(worker: Worker) -> list[Family]:
    """The figures now. Reads what the threads leave lying about; takes no lock and stops nobody."""
    board, slots = worker.board, worker.slots
    info = Family("tidemill_worker_info", "gauge", "1; which worker this is.")
    info.add(1, name=worker.options.name, version=__version__)
    ended = Family("tidemill_worker_attempts_total", "counter", "Attempts that this worker has ended and reported, by outcome.")
    for event in (Event.COMPLETE, Event.FAIL, Event.SNOOZE, Event.RELEASE, Event.ACK_CANCELLED, Event.CRASH):
        ended.add(worker.acker.ended[event], outcome=event.value)
    simple = [
        ("tidemill_worker_slots", "gauge", "Jobs that it can run at once.", slots.limit),
        ("tidemill_worker_running", "gauge", "Jobs that run.", len(board.running)),
        (
            "tidemill_worker_held",
            "gauge",
            "Leases that it holds: running, waiting for a place, or being reported.",
            len(board.held),
        ),
        ("tidemill_worker_acks_waiting", "gauge", "Ends of attempts that are not reported yet; grows during an outage.", len(board.outbox)),
        ("tidemill_worker_run_mean_seconds", "gauge", "A running mean of how long handlers take.", board.mean_run_secs),
        ("tidemill_worker_heartbeat_age_seconds", "gauge", "Since the last heartbeat that was answered.", _age(worker)),
        ("process_cpu_seconds_total", "counter", "Processor time of this process.", time.process_time()),
        ("process_resident_memory_bytes", "gauge", "Memory of this process.", (memory_mb() or 0) * 1e6),
    ]
    found = [info, ended]
    for name, kind, text, value in simple:
        family = Family(name, kind, text)  # type: ignore[arg-type]  # the two words are written above
        family.add(value)
        found.append(family)
    return found


def _age(worker: Worker) -> float | None:
    return None if worker.heart is None else max(0.0, time.monotonic() - worker.heart.alive_at)


class MetricsServer:
    """Serves the figures from threads of its own until `close`. OSError if the port is taken; port 0 takes any (`port` tells which)."""

    def __init__(self, worker: Worker, port: int, host: str = LOOPBACK) -> None:
        from http.server import ThreadingHTTPServer

        worker.acker.counts = True
        self._server: ThreadingHTTPServer = ThreadingHTTPServer((host, port), _handler(worker))
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="tidemill-metrics", daemon=True).start()

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()


def _handler(worker: Worker) -> type[BaseHTTPRequestHandler]:
    from http.server import BaseHTTPRequestHandler

    class Handler(BaseHTTPRequestHandler):
        """Knows one path."""

        server_version = "tidemill"
        sys_version = ""
        timeout = 5.0

        def do_GET(self) -> None:
            is_known = self.path.partition("?")[0] == "/metrics"
            body = prometheus.text(families(worker)).encode() if is_known else b"there is /metrics\n"
            self.send_response(200 if is_known else 404)
            self.send_header("content-type", prometheus.CONTENT_TYPE if is_known else "text/plain")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Scrapes are no news."""

    return Handler
