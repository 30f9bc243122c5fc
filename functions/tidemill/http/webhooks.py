"""The error webhook of a project: where it goes, its secret, a test, and what was told (docs/webhook.md)."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from tidemill.domain import webhooks as domain
from tidemill.domain.errors import Fault, Invalid, NotFound
from tidemill.http import pages
from tidemill.http.ids import new_id
from tidemill.http.job_view import Row, instant
from tidemill.http.models.webhooks import DeliveriesPage, TestAsked, Webhook, WebhookIn, WebhookMade
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.queries import Page
from tidemill.http.routes import Scope
from tidemill.store.postgres import PostgresStore


@operation(answers={200: Webhook})
def show(call: Call) -> Answer:
    """Show the webhook. Its secret is not shown again; 404 if there is none."""
    return Answer(_shown(call, call.database.run(lambda store: _row(store, call.project_id))))


@operation(body=WebhookIn, answers={200: Webhook, 201: WebhookMade})
def put(call: Call) -> Answer:
    """Make the webhook, with a secret that is in this answer and nowhere else; or change it, which keeps its secret.

    A new address, and going on after a pause, clear what is known of failures.
    """
    body = call.body
    if fault := domain.fault_of_url(body["url"], is_local=call.stage == domain.LOCAL_STAGE):
        raise Invalid([Fault(("url",), fault)])
    events, queues = sorted(set(body.get("events", [domain.DEAD_LETTER]))), body.get("queues")

    def work(store: PostgresStore) -> tuple[Row, str | None]:
        before = store.webhook(call.project_id)
        is_new = store.put_webhook(
            call.project_id, body["url"], events, sorted(set(queues)) if queues else None, is_paused=body.get("is_paused")
        )
        if is_new:
            store.begin_webhook(call.project_id)
        text = _new_secret(store, call.project_id) if is_new else None
        row = _row(store, call.project_id)
        call.note("webhook", call.project_id, before=_kept(before) if before else None, after=_kept(row))
        return row, text

    row, text = call.database.run(work)
    return Answer(_shown(call, row) | ({"secret": text} if text else {}), 201 if text else 200)


@operation(answers={204: None})
def delete(call: Call) -> Answer:
    """Remove the webhook, its secrets and the list of what it told. What it has not told yet is not told."""

    def work(store: PostgresStore) -> None:
        before = _row(store, call.project_id)
        store.delete_webhook(call.project_id)
        call.note("webhook", call.project_id, before=_kept(before))

    call.database.run(work)
    return Answer("", 204)


@operation(answers={201: WebhookMade})
def rotate(call: Call) -> Answer:
    """Make a new secret. The old one signs beside it for a day: calls carry both signatures, so that none is refused meanwhile."""

    def work(store: PostgresStore) -> tuple[Row, str]:
        before = _row(store, call.project_id)
        text = _new_secret(store, call.project_id)
        row = _row(store, call.project_id)
        call.note("webhook", call.project_id, before=_kept(before), after=_kept(row) | {"secret": text})
        return row, text

    row, text = call.database.run(work)
    return Answer(_shown(call, row) | {"secret": text}, 201)


@operation(answers={202: TestAsked})
def test(call: Call) -> Answer:
    """Ask for a test call, of a paused webhook too. The deliveries show how it went; it can take until the scheduler's next pass."""

    def work(store: PostgresStore) -> Any:
        _row(store, call.project_id)
        asked_at = store.ask_webhook_test(call.project_id, str(new_id()))
        call.note("webhook", call.project_id, after={"test_asked_at": asked_at})
        return asked_at

    return Answer({"asked_at": instant(call.database.run(work))}, 202)


@operation(query=Page, answers={200: DeliveriesPage}, etag=True)
def list_deliveries(call: Call) -> Answer:
    """List the calls of the last seven days, the newest first; none is listed where there is no webhook."""
    return pages.plain(
        call,
        "webhook-deliveries",
        lambda before, limit: call.database.run(lambda store: store.webhook_deliveries(call.project_id, before=before, limit=limit)),
        lambda row: row["id"],
        lambda row: row | {name: instant(row[name]) for name in ("created_at", "ended_at")},
    )


def _row(store: PostgresStore, project_id: str) -> Row:
    found = store.webhook(project_id)
    if found is None:
        error = NotFound("webhook", project_id)
        error.detail = "this project has no webhook: PUT /v1/webhook makes one (tidemill webhook set URL)"
        raise error
    return found


def _new_secret(store: PostgresStore, project_id: str) -> str:
    secret = secrets.token_bytes(domain.SECRET_BYTES)
    store.add_webhook_secret(str(new_id()), project_id, secret)
    return domain.secret_text(secret)


def _kept(row: Row) -> Row:
    """What the audit log keeps: what was set; of the address, whose path may be a secret, only what tells it from another."""
    url = {"url": domain.shown_url(row["url"]), "url_digest": hashlib.sha256(row["url"].encode()).hexdigest()[:16]}
    return {name: row[name] for name in ("events", "queues", "is_paused")} | url


def _shown(call: Call, row: Row) -> Row:
    status = domain.status(is_paused=row["is_paused"], is_failing=row["failing_since"] is not None)
    url = row["url"] if Scope.ADMIN in call.principal.scopes else domain.shown_url(row["url"])
    times = {name: instant(value) for name, value in row.items() if name.endswith(("_at", "_since", "_until"))}
    return {**row, **times, "url": url, "status": status}
