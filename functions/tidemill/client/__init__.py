"""Talk to tidemill: over HTTPS (`Client`, and `HttpSource` for workers), or through the database that you share with it.

    with tidemill.Client("https://jobs.example.com", api_key) as client:
        client.enqueue("email.send", {"to": "a@example.com"}, queue="mail", delay_ms=60_000)

    with psycopg.connect(dsn) as conn:                       # the job exists if and only if the order does
        conn.execute("insert into orders …")
        enqueue_in_transaction(conn, project_id, [{"job_type": "order.ship", "payload": {"order": 7}}])

Importing this package loads neither httpx nor a database driver; both load when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.client.api import Client as Client
    from tidemill.client.commits import after_commit as after_commit
    from tidemill.client.commits import enqueue_after_commit as enqueue_after_commit
    from tidemill.client.fields import JobFields as JobFields
    from tidemill.client.models import Batch as Batch
    from tidemill.client.models import BulkAnswer as BulkAnswer
    from tidemill.client.models import Enqueued as Enqueued
    from tidemill.client.models import Job as Job
    from tidemill.client.outbox import NotSent as NotSent
    from tidemill.client.problems import CircuitOpen as CircuitOpen
    from tidemill.client.problems import UnexpectedAnswer as UnexpectedAnswer
    from tidemill.client.problems import Unreachable as Unreachable
    from tidemill.client.source import HttpSource as HttpSource
    from tidemill.client.transaction import NotInTransaction as NotInTransaction
    from tidemill.client.transaction import enqueue_in_transaction as enqueue_in_transaction

_HOMES = {
    "Batch": "models",
    "BulkAnswer": "models",
    "CircuitOpen": "problems",
    "Client": "api",
    "Enqueued": "models",
    "HttpSource": "source",
    "Job": "models",
    "JobFields": "fields",
    "NotSent": "outbox",
    "NotInTransaction": "transaction",
    "UnexpectedAnswer": "problems",
    "Unreachable": "problems",
    "after_commit": "commits",
    "enqueue_after_commit": "commits",
    "enqueue_in_transaction": "transaction",
}


def __getattr__(name: str) -> Any:
    """Loads a public name from its module on first use."""
    if name in _HOMES:
        return getattr(import_module(f"tidemill.client.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
