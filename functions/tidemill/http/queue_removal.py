"""DELETE /v1/queues/{name}: an empty queue goes at once; another one only by force, which is a bulk operation."""

from __future__ import annotations

from typing import Any, NotRequired

from pydantic import with_config
from typing_extensions import TypedDict

from tidemill.domain.errors import NotFound, QueueNotEmpty
from tidemill.domain.operations import Operation as Stored
from tidemill.engine.bulk_queue import plan_removal
from tidemill.http.fields import CLOSED
from tidemill.http.ids import new_id
from tidemill.http.models.operations import Operation
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.operations import caller, shown, told
from tidemill.http.parameters import path_name
from tidemill.http.queries import Flag
from tidemill.store.postgres import PostgresStore

LOOKS = 20
PAUSE_SECS = 0.05
COUNTED = 1_000


@with_config(CLOSED)
class RemovalQuery(TypedDict):
    """`force`: also with jobs in it, which are deleted; what runs is asked to stop first."""

    force: NotRequired[Flag]


@operation(query=RemovalQuery, answers={202: Operation, 204: None})
def remove(call: Call, name: str) -> Answer:
    """Remove a queue. 409 `queue_not_empty` if it has jobs, ended ones included; with `force` it takes no more jobs from now on, and the
    answer is the bulk operation that empties and removes it. An empty one is gone (204) unless a transaction that may still put a job into
    it takes longer than a second: then that is left to an operation too.
    """
    name = path_name("queue", name)
    if not call.query.get("force", False):
        _require_empty(call, name)
        if _gone(call, name):
            return Answer("", 204)

    def work(store: PostgresStore) -> Stored:
        found = store.queues(call.project_id, name=name)
        if not found:
            raise NotFound("queue", name)
        running = store.removal_of(found[0]["id"])
        if running is not None and (before := store.operation(call.project_id, running)) is not None:  # asked before
            return before
        made = plan_removal(store, call.project_id, str(new_id()), name, by=caller(call), actor_kind=call.principal.kind)
        call.note("queue", name, after={"operation": made.id, **told(made)})
        return made

    return Answer(shown(call.database.run(work)), 202)


def _require_empty(call: Call, name: str) -> None:
    def look(store: PostgresStore) -> None:
        found = store.queues(call.project_id, name=name)
        if not found:
            raise NotFound("queue", name)
        if held := store.held_by_queue(found[0]["id"], COUNTED + 1):
            count = f"more than {COUNTED:,}" if held > COUNTED else f"{held:,}"
            raise QueueNotEmpty(
                f"queue {name!r} holds {count} job{'s' * (held != 1)}, ended ones included:"
                " delete them first, or remove it with ?force=true"
            )

    _plain(call).run(look)


def _gone(call: Call, name: str) -> bool:
    """Closes the queue and removes it once all who may not know that it is closed are through; False if that takes too long."""
    closed = _plain(call).run(lambda store: store.close_queue(call.project_id, name))
    if closed is None:
        raise NotFound("queue", name)

    def work(store: PostgresStore) -> bool:
        if not store.remove_closed_queue(*closed):
            return False
        call.note("queue", name, before={"name": name, "id": closed[0]})
        return True

    for _ in range(LOOKS):
        if call.database.run(work):
            return True
        if _plain(call).run(lambda store: store.held_by_queue(closed[0], 1)):
            _plain(call).run(lambda store: store.open_queue(closed[0]))
            raise QueueNotEmpty(f"queue {name!r} got a job while it was being removed: try again, or remove it with ?force=true")
        call.sleep(PAUSE_SECS)
    return False


def _plain(call: Call) -> Any:
    return call.audit.plain if call.audit is not None else call.database
