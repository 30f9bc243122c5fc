"""Members of an organization: who they are and what they may do. Somebody owns it at every moment."""

from __future__ import annotations

import secrets
from typing import Annotated, Required

from pydantic import Field, StringConstraints, with_config
from typing_extensions import TypedDict

from tidemill import passwords
from tidemill.domain.errors import Conflict, Forbidden
from tidemill.domain.sessions import PASSWORD_CHARS
from tidemill.http import pages
from tidemill.http.admission import unseen
from tidemill.http.fields import CLOSED, Id, Instant
from tidemill.http.ids import new_id
from tidemill.http.job_view import Row, instant
from tidemill.http.me import Role
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.parameters import path_id
from tidemill.http.queries import Page
from tidemill.http.routes import Scope
from tidemill.store.postgres import PostgresStore

Email = Annotated[str, StringConstraints(pattern=r"^[^\s@,;<>]{1,64}@[^\s@,;<>]{1,250}$")]


@with_config(CLOSED)
class UserIn(TypedDict, total=False):
    """Somebody to let in. Without a password a new user gets one that is in the answer, once."""

    email: Required[Email]
    role: Required[Role]
    full_name: Annotated[str, Field(max_length=200)]
    password: Annotated[str, Field(min_length=PASSWORD_CHARS[0], max_length=PASSWORD_CHARS[1])]


@with_config(CLOSED)
class RoleIn(TypedDict):
    """What the member is to be."""

    role: Role


class Member(TypedDict):
    """A member of an organization."""

    id: Id
    email: str
    full_name: str
    is_active: bool
    role: Role
    member_since: Instant


class MemberMade(Member):
    """A new member. `initial_password` is shown only here; null if one was given, or the user was there before and keeps theirs."""

    initial_password: str | None


class MembersPage(TypedDict):
    """A page of members."""

    items: list[Member]
    next_cursor: str | None


@operation(query=Page, answers={200: MembersPage}, etag=True)
def list_users(call: Call, id: str) -> Answer:
    """List an organization's members with their roles."""
    org_id = path_id("organization", id)
    return pages.plain(
        call,
        f"users {org_id}",
        lambda after, limit: call.database.run(lambda store: store.users(org_id, after=after, limit=limit)),
        lambda row: row["id"],
        _shown,
    )


@operation(body=UserIn, answers={201: MemberMade})
def add(call: Call, id: str) -> Answer:
    """Let somebody in, with a new account where there is none with this email. 409 if they are a member."""
    org_id, given = path_id("organization", id), call.body
    password = given.get("password") or secrets.token_urlsafe(12)
    password_hash = passwords.hash_password(password)

    def work(store: PostgresStore) -> tuple[Row, bool]:
        user_id, is_new = store.create_user(str(new_id()), given["email"], given.get("full_name", ""), password_hash)
        if not store.add_member(org_id, user_id, given["role"]):
            raise Conflict(f"{given['email']} is a member already: change the role with PUT …/members/{user_id}")
        member = _shown(_row(store, org_id, user_id))
        call.note("member", user_id, after=member, org_id=org_id)
        return member, is_new

    member, is_new = call.database.run(work)
    return Answer({**member, "initial_password": password if is_new and "password" not in given else None}, 201)


@operation(answers={200: Member})
def show(call: Call, id: str, user_id: str) -> Answer:
    """Show a member."""
    org_id, user_id = path_id("organization", id), path_id("member", user_id)
    return Answer(_shown(call.database.run(lambda store: _row(store, org_id, user_id))))


@operation(body=RoleIn, answers={200: Member})
def put(call: Call, id: str, user_id: str) -> Answer:
    """Give a member another role. It counts with the next request. 409 for the last owner."""
    org_id, user_id, role = path_id("organization", id), path_id("member", user_id), call.body["role"]

    def work(store: PostgresStore) -> Row:
        store.lock_organization(org_id)
        before = _row(store, org_id, user_id)
        if role != "owner":
            _keep_an_owner(store, org_id, before)
        store.set_role(org_id, user_id, role)
        after = _row(store, org_id, user_id)
        call.note("member", user_id, before=_shown(before), after=_shown(after), org_id=org_id)
        return after

    return Answer(_shown(call.database.run(work)))


@operation(answers={204: None})
def remove(call: Call, id: str, user_id: str) -> Answer:
    """Take a member out, or leave. API keys that they made stay: those are the project's. 409 for the last owner."""
    org_id, user_id = path_id("organization", id), path_id("member", user_id)
    if user_id != call.principal.id and Scope.OWNER not in call.principal.scopes:
        raise Forbidden(f"the role {call.principal.role} has not the scope owner: only owners take others out")

    def work(store: PostgresStore) -> None:
        store.lock_organization(org_id)
        before = _row(store, org_id, user_id)
        _keep_an_owner(store, org_id, before)
        store.remove_member(org_id, user_id)
        call.note("member", user_id, before=_shown(before), org_id=org_id)

    call.database.run(work)
    return Answer("", 204)


def _keep_an_owner(store: PostgresStore, org_id: str, member: Row) -> None:
    if member["role"] == "owner" and not store.has_other_owner(org_id, member["id"]):
        raise Conflict("the last owner of an organization can't leave: make another member an owner first")


def _row(store: PostgresStore, org_id: str, user_id: str) -> Row:
    found = store.users(org_id, user_id=user_id)
    if not found:
        raise unseen("member", user_id)
    return found[0]


def _shown(row: Row) -> Row:
    return row | {"member_since": instant(row["member_since"])}
