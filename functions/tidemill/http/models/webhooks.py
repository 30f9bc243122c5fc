"""The error webhook of a project."""

from __future__ import annotations

from typing import Annotated, Literal, Required

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.domain import webhooks
from tidemill.http.fields import CLOSED, Id, Instant, Name

EventName = Literal["job.dead_letter", "fingerprint.quarantined", "schedule.broken"]


@with_config(CLOSED)
class WebhookIn(TypedDict, total=False):
    """Where it goes, and what it tells (`events`; default: `job.dead_letter`).

    `url`: https to a public address. `queues`: dead letters of these only (default: of all). `is_paused`: nothing is noted and nothing sent
    (default: as it is; new: off).
    """

    url: Required[Annotated[str, Field(min_length=webhooks.URL_CHARS[0], max_length=webhooks.URL_CHARS[1])]]
    events: Annotated[list[EventName], Field(min_length=1, max_length=len(webhooks.EVENTS))]
    queues: Annotated[list[Name], Field(min_length=webhooks.QUEUES[0], max_length=webhooks.QUEUES[1])] | None
    is_paused: bool


class Webhook(TypedDict):
    """A webhook. `url`: without its path for who has not the scope admin. `status`: failing = a call used up its attempts and none has
    arrived since. `failed_attempts`: since the last call that arrived. `waiting`: kinds of things not told yet (counted up to 1,000).
    `old_secret_until`: until then a rotated secret signs beside the new one.
    """

    url: str
    events: list[EventName]
    queues: list[str] | None
    is_paused: bool
    status: webhooks.Status
    failing_since: Instant | None
    failed_attempts: int
    last_error: str | None
    last_status: int | None
    last_failure_at: Instant | None
    last_success_at: Instant | None
    waiting: int
    old_secret_until: Instant | None
    created_at: Instant
    updated_at: Instant


class WebhookMade(Webhook):
    """A webhook with a new `secret`, which is shown only here."""

    secret: str


class TestAsked(TypedDict):
    """A test call is on its way: it is in the deliveries as `webhook.test`, behind `asked_at`."""

    asked_at: Instant


class Delivery(TypedDict):
    """A call. `id`: in its header `webhook-id`, as `evt_<id>`. `things`: how many kinds of things it told, named or counted.

    `status`: `waiting` (for its next attempt), `delivered`, `failed` (no attempt is left), `dropped` (the webhook was paused or removed).
    """

    id: Id
    event: str
    things: int
    status: Literal["waiting", "delivered", "failed", "dropped"]
    attempts: int
    last_status: int | None
    last_error: str | None
    created_at: Instant
    ended_at: Instant | None


class DeliveriesPage(TypedDict):
    """A page of calls, the newest first."""

    items: list[Delivery]
    next_cursor: str | None
