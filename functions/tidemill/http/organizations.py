"""Organizations of a user."""

from __future__ import annotations

from typing import Annotated, Literal, Required

from pydantic import Field, StringConstraints, with_config
from typing_extensions import TypedDict

from tidemill.domain.errors import Conflict, Forbidden
from tidemill.http import pages
from tidemill.http.admission import unseen
from tidemill.http.fields import CLOSED, Id, Instant, Label
from tidemill.http.ids import new_id
from tidemill.http.job_view import Row, instant
from tidemill.http.me import Role
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.parameters import path_id
from tidemill.http.queries import Page
from tidemill.store.postgres import PostgresStore

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
Hidden = Annotated[list[Literal["viewer", "operator"]], Field(max_length=2)]


@with_config(CLOSED)
class OrganizationIn(TypedDict):
    """A new organization; `slug` is its short name, unlike any other's."""

    name: Label
    slug: Slug


@with_config(CLOSED)
class OrganizationEdit(TypedDict, total=False):
    """What is left out stays. `payloads_hidden_from`: roles that see no payloads, results, log lines and error texts."""

    name: Label
    payloads_hidden_from: Hidden


class Organization(TypedDict):
    """An organization; `role`: the caller's in it."""

    id: Required[Id]
    name: str
    slug: str
    payloads_hidden_from: list[Literal["viewer", "operator"]]
    role: Role
    created_at: Instant


class OrganizationsPage(TypedDict):
    """A page of organizations."""

    items: list[Organization]
    next_cursor: str | None


@operation(query=Page, answers={200: OrganizationsPage}, etag=True)
def list_organizations(call: Call) -> Answer:
    """List the organizations that the caller belongs to."""
    return pages.plain(
        call,
        f"organizations {call.principal.id}",
        lambda after, limit: call.database.run(lambda store: store.organizations(call.principal.id, after=after, limit=limit)),
        lambda row: row["id"],
        _shown,
    )


@operation(body=OrganizationIn, answers={201: Organization})
def create(call: Call) -> Answer:
    """Create an organization and own it. For who owns one already: others ask their owner. 409 if the slug is taken."""
    org_id, given = str(new_id()), call.body

    def work(store: PostgresStore) -> Row:
        if not any(row["role"] == "owner" for row in store.organizations(call.principal.id, limit=1_000)):
            raise Forbidden("only who owns an organization may create another one")
        if not store.create_organization(org_id, call.principal.id, given["name"], given["slug"]):
            raise Conflict(f"an organization called {given['slug']!r} exists already: choose another slug")
        made = _row(store, call, org_id)
        call.note("organization", org_id, after=_shown(made), org_id=org_id)
        return made

    return Answer(_shown(call.database.run(work)), 201)


@operation(answers={200: Organization})
def show(call: Call, id: str) -> Answer:
    """Show an organization."""
    org_id = path_id("organization", id)
    return Answer(_shown(call.database.run(lambda store: _row(store, call, org_id))))


@operation(body=OrganizationEdit, answers={200: Organization})
def edit(call: Call, id: str) -> Answer:
    """Change an organization's name, or which roles see no payloads."""
    org_id, given = path_id("organization", id), call.body

    def work(store: PostgresStore) -> Row:
        before = _row(store, call, org_id)
        hidden = given.get("payloads_hidden_from")
        store.edit_organization(org_id, name=given.get("name"), payloads_hidden_from=sorted(set(hidden)) if hidden is not None else None)
        after = _row(store, call, org_id)
        call.note("organization", org_id, before=_shown(before), after=_shown(after), org_id=org_id)
        return after

    return Answer(_shown(call.database.run(work)))


def _row(store: PostgresStore, call: Call, org_id: str) -> Row:
    found = store.organizations(call.principal.id, org_id=org_id)
    if not found:
        raise unseen("organization", org_id)
    return found[0]


def _shown(row: Row) -> Row:
    return row | {"created_at": instant(row["created_at"])}
