"""Places for handlers: at most `limit` run at once over all isolations, in the order in which jobs were claimed.

A thread that is awake has a place. It keeps it from job to job, so that a short job costs no hand-over; a coroutine takes
its thread's place along to the event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from tidemill.runner.bell import Bell
from tidemill.runner.board import Board
from tidemill.runner.task import Task


class Slots:
    """Threads are made when first needed. `room` rings when a place or the stock of ready jobs runs low."""

    def __init__(self, limit: int, board: Board, run: Callable[[Task], None], begin: Callable[[Task], None]) -> None:
        self.limit = limit
        self.free = limit
        self.room = Bell()
        self.hungry = False
        self.low_water = -1
        self._board = board
        self._run = run
        self._begin = begin
        self._lock = threading.Lock()
        self._resting: list[Bell] = []
        self._threads = 0
        self._closed = False

    def feed(self, tasks: Iterable[Task]) -> None:
        """Gives jobs a place as soon as there is one."""
        self._board.ready.extend(tasks)
        self._rouse()

    def give_back(self) -> Task | None:
        """A coroutine has ended: the next coroutine for its place, or None, and the place is free for a thread."""
        ready = self._board.ready
        with self._lock:
            if ready and not self._closed:
                task = ready.popleft()
                if task.type is not None and task.type.isolation == "async":
                    return task
                ready.appendleft(task)
            self.free += 1
        self._noticed()
        self._rouse()
        return None

    def close(self) -> None:
        """Threads end once they find nothing to do."""
        with self._lock:
            self._closed = True
            resting, self._resting = self._resting, []
        for bell in resting:
            bell.ring()

    def _rouse(self) -> None:
        """Wakes one thread if there is work and a place; it wakes the next one."""
        with self._lock:
            if not self.free or not self._board.ready or self._closed:
                return
            self.free -= 1
            if self._resting:
                self._resting.pop().ring()
                return
            self._threads += 1
            number = self._threads
        threading.Thread(target=self._work, name=f"tidemill-{number}", daemon=True).start()

    def _work(self) -> None:
        bell, ready = Bell(), self._board.ready
        while True:
            try:
                task = ready.popleft()
            except IndexError:
                if not self._rest(bell, places=1):
                    return
                continue
            if self.hungry and len(ready) <= self.low_water:
                self._noticed()
            if ready and self.free:
                self._rouse()
            if task.type is not None and task.type.isolation == "async":
                self._begin(task)
                if not self._rest(bell, places=0):
                    return
            else:
                self._run(task)

    def _rest(self, bell: Bell, *, places: int) -> bool:
        """Gives `places` back and sleeps until roused, with a place again. False when there is nothing more to do."""
        with self._lock:
            self.free += places
            if self._board.ready and self.free:
                self.free -= 1
                return True
            if self._closed:
                return False
            self._resting.append(bell)
        self._noticed()
        bell.wait()
        return not self._closed

    def _noticed(self) -> None:
        if self.hungry:
            self.hungry = False
            self.room.ring()
