"""Sends the ends of attempts. They stay in memory until the other side has said that it has them."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

from tidemill.domain.errors import Conflict, Internal, Invalid, MalformedBody, PayloadTooLarge, TidemillError
from tidemill.domain.jobs import Ack, AckResult
from tidemill.domain.transitions import Event
from tidemill.ports import JobSource
from tidemill.runner import acks as words
from tidemill.runner.backoff import Patience
from tidemill.runner.board import BATCH, Board
from tidemill.runner.log import Log

TRIES_ALONE: Final = 3
FAULTS_OF_AN_ACK: Final = (Invalid, MalformedBody, PayloadTooLarge, Conflict, Internal)
"""Errors that the same batch would meet again; any other passes (an outage, a key that is being replaced)."""


class Acker:
    """One thread. A batch that fails is sent again as it was: the exact repeat of an applied ack is no second one."""

    def __init__(self, source: JobSource, board: Board, log: Log) -> None:
        self._source = source
        self._board = board
        self._log = log
        self._closed = threading.Event()
        self._patience = Patience()
        self.ended: Counter[Event] = Counter()
        """Attempts whose end was taken, by outcome; counted only while `counts`."""
        self.counts = False
        self.thread = threading.Thread(target=self._loop, name="tidemill-ack", daemon=True)

    def close(self) -> None:
        """Ends the thread; what is not sent yet is given up."""
        self._closed.set()
        self._board.to_ack.ring()

    def _loop(self) -> None:
        board = self._board
        outbox, bell = board.outbox, board.to_ack
        while not self._closed.is_set():
            if not outbox:
                bell.wait(1.0)
                continue
            board.acking = True
            self._send([outbox.popleft() for _ in range(min(BATCH, len(outbox)))])
            board.acking = False
            if not outbox:
                board.to_drain.ring()

    def _send(self, batch: list[Ack]) -> None:
        tries = 0
        while not self._closed.is_set():
            try:
                results = self._source.settle(batch)
            except TidemillError as error:
                code = error.code
                if not isinstance(error, FAULTS_OF_AN_ACK):
                    self._wait(code, len(batch))
                    continue
            except Exception as error:  # noqa: BLE001 - a fault of a source must not end the worker
                code = type(error).__name__
            else:
                if self._patience.succeeded():
                    self._log.info("acks_resumed", acks=len(batch))
                self._settled(batch, results)
                return
            tries += 1
            if len(batch) > 1:  # one of them is bad, or they are too many: find out by halves
                middle = len(batch) // 2
                self._send(batch[:middle])
                self._send(batch[middle:])
                return
            if tries >= TRIES_ALONE:
                self._refused(batch[0], code)
                return
            self._wait(code, 1)

    def _settled(self, batch: list[Ack], results: list[AckResult]) -> None:
        held = self._board.held
        for ack, result in zip(batch, results, strict=True):
            held.pop(ack.lease_token, None)
            if result.status != "ok":
                self._log.warning("ack_refused", job_id=ack.job_id, outcome=ack.event.value, code=result.code)
        if self.counts:
            self.ended.update(ack.event for ack, result in zip(batch, results, strict=True) if result.status == "ok")

    def _refused(self, ack: Ack, code: str) -> None:
        """An ack that is never taken: the attempt fails with that reason; if even this is refused, its lease runs out."""
        self._log.error("ack_impossible", job_id=ack.job_id, outcome=ack.event.value, code=code)
        task = self._board.held.pop(ack.lease_token, None)
        if task is None or (ack.failure is not None and ack.failure.error_class == "AckRefused"):
            return
        self._board.held[ack.lease_token] = task
        self._send([words.failed(task, "AckRefused", f"the worker's ack ({ack.event.value}) was refused: {code}", retryable=False)])

    def _wait(self, code: str, size: int) -> None:
        wait_s = self._patience.failed()
        self._log.warning("ack_failed", code=code, acks=size, failures=self._patience.failures, retry_in_ms=int(wait_s * 1000))
        self._closed.wait(wait_s)
