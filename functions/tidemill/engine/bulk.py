"""The scheduler's part of bulk operations: batches that end within a fraction of a second, each with its cursor in one transaction.

Any number of schedulers may run at once: whoever holds an operation's row makes its next batch, the others take another operation.
One that is killed leaves a batch undone, and the cursor where it was. Nobody is waited for longer than 100 ms: a batch that cannot
have its locks is undone and tried in parts; a single job that cannot be had has its turn again at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from tidemill.domain.errors import Unavailable
from tidemill.domain.operations import REMOVE_QUEUE, Operation
from tidemill.engine.bulk_moves import Done, move
from tidemill.engine.bulk_queue import empty_queue
from tidemill.engine.bulk_undo import put_back
from tidemill.engine.operation_store import OperationStore

FIRST: Final = 500
SMALLEST: Final = 50
LARGEST: Final = 2_000
AIM_SECS: Final = 0.15
"""How long a batch should take: its locks are held for that long."""

WALKS: Final = 8
AGAIN: Final = 1_000
NEWEST_FIRST: Final = ("cancel", "delete")
"""Children come after their parents, so these reach a child before it would fall with its parent."""


class Bulk:
    """The operations' share of one scheduler pass. `clock`: monotonic, in seconds."""

    def __init__(self, store: OperationStore, *, clock: Callable[[], float], now: datetime | None = None) -> None:
        self._store, self._clock, self._now = store, clock, now
        self._size = FIRST
        self._rested: list[str] = []
        self._ended = 0

    def step(self) -> Mapping[str, int]:
        """One batch of one operation: operations that ended with it, jobs moved, jobs left alone. `more`: there may be another at once."""
        began, ended = self._clock(), self._ended
        done = self._batch()
        if done is None:
            return {"operations": 0, "jobs": 0, "skipped": 0, "more": 0}
        took = max(self._clock() - began, 0.001)
        self._size = int(min(max(self._size * min(AIM_SECS / took, 2.0), SMALLEST), LARGEST))
        return {"operations": self._ended - ended, "jobs": done.affected, "skipped": done.skips.total(), "more": 1}

    def _batch(self) -> Done | None:
        size = self._size
        while size:
            try:
                with self._store.bounded():
                    operation = self._store.take_operation(self._rested)
                    return None if operation is None else self._turn(operation, size)
            except Unavailable:
                size //= 8
        with self._store.bounded():
            operation = self._store.take_operation(self._rested)
            return None if operation is None else self._put_off(operation)

    def _turn(self, operation: Operation, size: int) -> Done:
        if operation.undo_at is not None:
            done, over = put_back(self._store, operation, size, now=self._now)
        elif operation.action == REMOVE_QUEUE:
            done, over = empty_queue(self._store, operation, size, now=self._now)
        else:
            done, over = self._apply(operation, size)
        if over:
            self._ended += 1
        elif not done.affected and not done.skips and (operation.is_walked or operation.action == REMOVE_QUEUE):
            self._rested.append(operation.id)  # what is left of it waits for others
        return done

    def _apply(self, operation: Operation, size: int) -> tuple[Done, bool]:
        store, waiting = self._store, list(operation.again)
        position, walked, ids = operation.position, operation.is_walked, list[str]()
        if walked or len(waiting) >= AGAIN:
            ids, waiting = waiting[:size], waiting[size:]
            ids = store.matching_jobs(operation.project_id, operation.query, ids)
        else:
            ids, position = self._next(operation, size)
            walked = position is None
        done = move(store, operation, ids, now=self._now)
        waiting += done.left
        skips = Counter(operation.skips) + done.skips
        store.moved_operation(operation.id, position=position, is_walked=walked, again=waiting, affected=done.affected, skips=skips)
        over = walked and not waiting
        if over:
            store.end_operation(operation.id, "completed", now=self._now)
        return done, over

    def _next(self, operation: Operation, size: int) -> tuple[list[str], str | None]:
        """The next members, and how far was looked for them (None: to the end)."""
        ids: list[str] = []
        after: str | None = operation.position
        for _ in range(WALKS):
            found, after = self._store.members(
                operation.project_id, operation.query, after=after, descending=operation.action in NEWEST_FIRST, limit=size
            )
            ids += found
            if after is None or len(ids) * 2 >= size:
                break
        return ids, after

    def _put_off(self, operation: Operation) -> Done:
        """The next job cannot be had now: later."""
        walks = operation.undo_at is None and operation.action != REMOVE_QUEUE and not operation.is_walked and len(operation.again) < AGAIN
        if not walks:
            self._rested.append(operation.id)
            return Done()
        ids, position = self._store.members(
            operation.project_id, operation.query, after=operation.position, descending=operation.action in NEWEST_FIRST, limit=1
        )
        self._store.moved_operation(
            operation.id,
            position=position,
            is_walked=position is None,
            again=[*operation.again, *ids],
            affected=0,
            skips=operation.skips,
        )
        return Done()
