"""B081: a signal ends `tidemill dev` at any moment of its life, with exit code 0, and nothing is left of it."""

import signal
import threading
import time

import pytest

from harness.dev import Dev, Watched, catches, folders_of, until

SIGNALS = [signal.SIGTERM, signal.SIGINT]
CLOSED_TERMINAL = signal.SIGHUP
PROGRAM = ("--ephemeral", "--port", "0")


def ends_well(dev: Dev, how: signal.Signals, watched: Watched) -> float:
    """Sends the signal; the seconds until everything is gone."""
    watched.note(dev)
    began = time.monotonic()
    dev.process.send_signal(how)
    while dev.process.poll() is None:
        watched.note(dev)
        assert time.monotonic() - began < 180, "does not end"
    took = time.monotonic() - began
    assert dev.wait() == 0, "".join(dev.errors)[-2000:]
    assert watched.left() == []
    assert folders_of(dev.process.pid) == []
    return took


@pytest.mark.parametrize("how", SIGNALS, ids=lambda s: s.name)
def test_b081_as_soon_as_it_can_hear(how: signal.Signals) -> None:
    with Dev(*PROGRAM, "--no-worker") as dev:
        until(lambda: catches(dev.process.pid, signal.SIGTERM), what="a handler for SIGTERM")
        ends_well(dev, how, Watched())
        assert dev.lines == []


@pytest.mark.parametrize("how", SIGNALS, ids=lambda s: s.name)
@pytest.mark.parametrize("after_s", [0.1, 1.0])
def test_b081_some_moments_after_the_start(how: signal.Signals, after_s: float) -> None:
    with Dev(*PROGRAM) as dev:
        began = time.monotonic()
        until(lambda: catches(dev.process.pid, signal.SIGTERM), what="a handler for SIGTERM")
        threading.Event().wait(max(0.0, began + after_s - time.monotonic()))
        took = ends_well(dev, how, Watched())
        print(f"{how.name} after {after_s} s: gone in {took:.2f} s")


@pytest.mark.parametrize("how", SIGNALS, ids=lambda s: s.name)
@pytest.mark.parametrize("word", ["initdb", "postgres", "awslambdaric"])
def test_b081_in_the_middle_of_the_start(how: signal.Signals, word: str) -> None:
    """The moment is named by what is being started, for how long it takes depends on the machine."""
    with Dev(*PROGRAM) as dev:
        until(lambda: dev.running(word), what=f"the start of {word}")
        took = ends_well(dev, how, Watched())
        print(f"{how.name} while {word} starts: gone in {took:.2f} s")


@pytest.mark.parametrize("how", SIGNALS, ids=lambda s: s.name)
def test_b081_two_signals_in_the_middle_of_the_start(how: signal.Signals) -> None:
    with Dev(*PROGRAM) as dev:
        until(lambda: dev.running("initdb"), what="initdb")
        watched = Watched()
        watched.note(dev)
        dev.process.send_signal(how)
        dev.process.send_signal(signal.SIGTERM if how is signal.SIGINT else signal.SIGINT)
        assert dev.wait() in (0, 128 + signal.SIGTERM, 128 + signal.SIGINT)
        assert watched.left() == []
        until(lambda: folders_of(dev.process.pid) == [], what="the temporary folder's removal")


@pytest.mark.parametrize("how", [*SIGNALS, CLOSED_TERMINAL], ids=lambda s: s.name)
def test_b081_when_ready(how: signal.Signals) -> None:
    with Dev(*PROGRAM) as dev:
        dev.ready()
        watched = Watched()
        watched.note(dev)
        assert len(watched.seen) > 5
        print(f"{how.name} when ready: gone in {ends_well(dev, how, watched):.2f} s")


def test_b081_with_a_long_poll_under_way() -> None:
    with Dev(*PROGRAM, "--no-worker") as dev:
        dev.ready()
        with dev.client() as client:
            worker = client.post("/v1/workers", json={"name": "w", "queues": ["default"], "max_concurrency": 1}).json()["worker_id"]
            answers: list[object] = []

            def poll() -> None:
                answers.append(client.post("/v1/claims", json={"worker_id": worker, "queues": ["default"], "limit": 1, "wait_ms": 20_000}))

            poller = threading.Thread(target=poll)
            poller.start()
            until(lambda: claims_wait_on_the_database(dev), what="the poll in the function")
            assert ends_well(dev, signal.SIGTERM, Watched()) < 12
            poller.join(120)
    assert [getattr(answer, "status_code", None) for answer in answers] == [503]


@pytest.mark.parametrize("how", SIGNALS, ids=lambda s: s.name)
def test_b081_a_second_signal_ends_it_at_once(how: signal.Signals) -> None:
    with Dev(*PROGRAM) as dev:
        dev.ready()
        watched = Watched()
        watched.note(dev)
        dev.process.send_signal(how)
        dev.process.send_signal(signal.SIGTERM if how is signal.SIGINT else signal.SIGINT)
        code = dev.wait()
        assert code in (0, 128 + signal.SIGTERM, 128 + signal.SIGINT)
        assert watched.left() == []
        until(lambda: folders_of(dev.process.pid) == [], what="the temporary folder's removal")


def test_b081_killed_outright_leaves_nothing_either() -> None:
    with Dev(*PROGRAM) as dev:
        dev.ready()
        watched = Watched()
        watched.note(dev)
        dev.process.kill()
        assert dev.wait() == -signal.SIGKILL
        assert watched.left(30) == []
        until(lambda: folders_of(dev.process.pid) == [], what="the temporary folder's removal")


def claims_wait_on_the_database(dev: Dev) -> bool:
    """Is a claims function connected to the server?"""
    port = int(dev.dsn.rpartition(":")[2].partition("/")[0])
    connections = [connection for process in dev.running("claims.handler") for connection in process.net_connections("inet")]
    return any(connection.raddr and connection.raddr.port == port for connection in connections)
