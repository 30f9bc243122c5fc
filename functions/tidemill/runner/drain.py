"""The end of a worker: running jobs get the stop window, everything else is given back, and then it is gone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from tidemill.domain.errors import TidemillError
from tidemill.domain.transitions import Event
from tidemill.runner import acks

if TYPE_CHECKING:
    from tidemill.runner.worker import Worker

RESERVE_SECS: Final = 2.0
"""Of the window, kept for giving back and signing off; at most a fifth of it."""


def drain(worker: Worker) -> None:
    """Blocks until the worker is gone: within the stop window, one for all queues, as long as the other side answers."""
    began = time.monotonic()
    window_s = worker.options.stop_window_secs
    end_at = began + window_s
    give_back_at = end_at - min(RESERVE_SECS, window_s / 5)
    board, heart = worker.board, worker.heart
    assert heart is not None
    heart.status = "draining"
    heart.beat_now()
    if worker.ticker is not None:
        worker.ticker.close()
    worker.claimer.close()
    worker.slots.close()
    returned = board.take_ready()
    board.release(returned)
    while time.monotonic() < give_back_at and (board.running or not board.is_clear() or worker.claimer.thread.is_alive()):
        worker.board.to_drain.wait(0.05)
    cut_off = 0
    for task in list(board.running.values()):
        if board.end(task, acks.simple(task, Event.RELEASE)):
            board.stop(task, force=True)
            cut_off += 1
    worker.coroutines.close(min(1.0, window_s / 10))
    worker.processes.close()
    board.to_ack.ring()
    while time.monotonic() < end_at and not board.is_clear():
        worker.board.to_drain.wait(0.02)
    unsent = len(board.outbox) + board.acking
    heart.close()
    worker.watch.close()
    worker.acker.close()
    for part in (heart, worker.acker, worker.watch):
        part.thread.join(max(0.1, end_at - time.monotonic()))
    _sign_off(worker)
    secs = round(time.monotonic() - began, 3)
    worker.log.info("stopped", secs=secs, not_started=len(returned), cut_off=cut_off, acks_unsent=unsent)


def _sign_off(worker: Worker) -> None:
    try:
        worker.source.deregister()
    except TidemillError as error:
        worker.log.warning("deregister_failed", code=error.code)
    finally:
        worker.source.close()
