"""API keys of a project: made (the secret is shown once), listed, revoked."""

from __future__ import annotations

import secrets
from typing import Annotated, Final, Literal, Required

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.domain import api_keys
from tidemill.domain.errors import Conflict, NotFound
from tidemill.http import pages
from tidemill.http.fields import CLOSED, Id, Instant, Label
from tidemill.http.ids import new_id
from tidemill.http.job_view import Row, instant
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.parameters import path_id
from tidemill.http.queries import Page
from tidemill.store.postgres import PostgresStore

OVERLAP_MS: Final = 3_600_000

ScopeName = Literal["enqueue", "work", "read", "operate", "admin"]


@with_config(CLOSED)
class KeyIn(TypedDict, total=False):
    """What a key is for, what it may do, and until when."""

    name: Required[Label]
    scopes: Required[Annotated[list[ScopeName], Field(min_length=1, max_length=5)]]
    expires_at: Instant | None


@with_config(CLOSED)
class RotateIn(TypedDict, total=False):
    """For how long the old key goes on beside the new one: 0 to 30 days."""

    overlap_ms: Annotated[int, Field(ge=0, le=30 * 86_400_000)]


class ApiKey(TypedDict):
    """A key without its secret. `last_used_at` is exact to a minute."""

    id: Id
    name: str
    scopes: list[ScopeName]
    created_at: Instant
    expires_at: Instant | None
    revoked_at: Instant | None
    last_used_at: Instant | None


class KeyMade(ApiKey):
    """A new key: `api_key` is the secret, shown only here."""

    api_key: str


class KeysPage(TypedDict):
    """A page of keys in the order they were made."""

    items: list[ApiKey]
    next_cursor: str | None


@operation(body=KeyIn, answers={201: KeyMade})
def create(call: Call, id: str) -> Answer:  # noqa: ARG001 - admission has compared it
    """Make an API key. Its text is in this answer and nowhere else: only a hash is stored."""
    project_id = call.project_id
    given = call.body
    key = api_keys.compose(call.stage, new_id(), secrets.token_urlsafe(api_keys.SECRET_BYTES))
    scopes, until = sorted(set(given["scopes"])), given.get("expires_at")

    def work(store: PostgresStore) -> Row:
        row = _shown(store.create_key(project_id, key.key_id, given["name"], key.digest, scopes, until, call.principal.id))
        call.note("api_key", key.key_id, after=row)
        return row

    return Answer({**call.database.run(work), "api_key": key.text}, 201)


@operation(query=Page, answers={200: KeysPage}, etag=True)
def list_keys(call: Call, id: str) -> Answer:  # noqa: ARG001 - admission has compared it
    """List a project's API keys, expired and revoked ones too."""
    project_id = call.project_id
    return pages.plain(
        call,
        "api-keys",
        lambda after, limit: call.database.run(lambda store: store.api_keys(project_id, after=after, limit=limit)),
        lambda row: row["id"],
        _shown,
    )


@operation(answers={200: ApiKey})
def revoke(call: Call, id: str) -> Answer:
    """Revoke an API key. It ends at once, save where a gateway remembers it for up to a minute. A repeat changes nothing."""
    key_id = path_id("API key", id)

    def work(store: PostgresStore) -> Row:
        before = store.api_key(call.project_id, key_id)
        row = store.revoke_key(call.project_id, key_id)
        if before is None or row is None:
            raise NotFound("API key", key_id)
        was, now = ({n: v for n, v in _shown(key).items() if n != "last_used_at"} for key in (before, row))
        call.note("api_key", key_id, before=was, after=now)
        return _shown(row)

    return Answer(call.database.run(work))


@operation(body=RotateIn, body_optional=True, answers={201: KeyMade})
def rotate(call: Call, id: str) -> Answer:
    """Make a key with the name, scopes and expiry of a live one, which ends after `overlap_ms` (default: an hour)."""
    key_id, overlap_ms = path_id("API key", id), call.body.get("overlap_ms", OVERLAP_MS)
    key = api_keys.compose(call.stage, new_id(), secrets.token_urlsafe(api_keys.SECRET_BYTES))

    def work(store: PostgresStore) -> Row:
        before = store.api_key(call.project_id, key_id)
        if before is None:
            raise NotFound("API key", key_id)
        retired = store.retire_key(call.project_id, key_id, overlap_ms)
        if retired is None:
            raise Conflict("this key has expired or was revoked: make a new one")
        made = _shown(
            store.create_key(
                call.project_id, key.key_id, before["name"], key.digest, before["scopes"], before["expires_at"], call.principal.id
            )
        )
        call.note("api_key", key_id, before=_shown(before), after={**_shown(retired), "successor": made})
        return made

    return Answer({**call.database.run(work), "api_key": key.text}, 201)


def _shown(row: Row) -> Row:
    return {name: instant(value) if name.endswith("_at") else value for name, value in row.items()}
