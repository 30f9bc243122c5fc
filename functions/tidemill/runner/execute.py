"""One attempt in a thread, from its start to its ack."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from tidemill.domain.errors import LeaseLost, TidemillError
from tidemill.domain.jobs import Ack
from tidemill.domain.transitions import Event
from tidemill.observe.correlation import RUNNING, about
from tidemill.ports import JobSource
from tidemill.runner import acks
from tidemill.runner.app import App
from tidemill.runner.board import MEAN_SHARE, Board
from tidemill.runner.context import Context
from tidemill.runner.log import Log
from tidemill.runner.task import Task

_now = time.monotonic
_COMPLETE = Event.COMPLETE
_RUNNING = RUNNING
_parse = json.JSONDecoder().raw_decode
"""json.loads without its searches for white space, which neither Postgres nor the API puts around a payload."""


class Executor:
    """Runs thread jobs here and hands process jobs to `run_apart`, which blocks until the process has ended the job."""

    def __init__(
        self, board: Board, source: JobSource, app: App, log: Log, watch: Callable[[], None], run_apart: Callable[[Task], None]
    ) -> None:
        self._board = board
        self._source = source
        self._app = app
        self._log = log
        self._watch = watch
        self._run_apart = run_apart

    def begin(self, task: Task) -> bool:
        """Opens the attempt; False if there is nothing to run any more."""
        board, job = self._board, task.job
        now = task.started_at = _now()
        if task.cancelled:
            board.report(task, acks.simple(task, Event.ACK_CANCELLED))
            return False
        timeout_ms = job.timeout_ms
        if timeout_ms is None and task.type is not None:
            timeout_ms = task.type.timeout_ms
        if timeout_ms is not None:
            task.deadline = now + timeout_ms / 1000
        board.running[job.lease_token] = task
        if timeout_ms is not None:
            self._watch()
        return True

    def run(self, task: Task) -> None:
        """Runs the handler; whatever happens, the attempt ends with one ack, or with none if its lease is lost."""
        if not self.begin(task):
            return
        board, kind = self._board, task.type
        if kind is not None and kind.isolation == "process":
            self._run_apart(task)
        else:
            self._run_here(task, board)
        secs = _now() - task.started_at
        mean = board.mean_run_secs
        board.mean_run_secs = secs if mean is None else mean + (secs - mean) * MEAN_SHARE

    def _run_here(self, task: Task, board: Board) -> None:
        job = task.job
        ctx = Context(task, self._source, self._app)
        mark = _RUNNING.set(job)
        try:
            value = task.execute(ctx, _parse(job.payload)[0])  # type: ignore[misc]  # a task without a handler never gets here
            ack = acks.completed(task, value) if value is not None else Ack(job.job_id, job.lease_token, _COMPLETE, acks.COMPLETED)
        except LeaseLost as error:
            if error.job_id == job.job_id:
                board.lose(task)
            ack = acks.raised(task, error)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its attempt's end, never the thread's
            ack = acks.raised(task, error)
        _RUNNING.reset(mark)
        if ctx._log is not None:  # noqa: SLF001 - asking for `log` would make one
            self._flush(ctx, task)
        if not board.end(task, ack):
            self._log.warning("late_result_dropped", **about(job))

    def _flush(self, ctx: Context, task: Task) -> None:
        try:
            ctx.flush_log()
        except LeaseLost:
            self._board.lose(task)
        except TidemillError as error:
            self._log.warning("log_lines_lost", **about(task.job), code=error.code)
