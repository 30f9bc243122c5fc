"""Who the caller is, and the caller's password."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill import passwords
from tidemill.domain.errors import Fault, Invalid
from tidemill.domain.sessions import PASSWORD_CHARS
from tidemill.engine import sessions as engine
from tidemill.http.admission import unseen
from tidemill.http.auth import UserOut, slots_of
from tidemill.http.fields import CLOSED, Id
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.routes import ROLES
from tidemill.store.postgres import PostgresStore
from tidemill.store.sessions import User

SHOWN = 200

Role = Literal["viewer", "operator", "admin", "owner"]


class MyOrganization(TypedDict):
    """An organization, and what the user is in it."""

    id: Id
    name: str
    slug: str
    role: Role


class MyProject(TypedDict):
    """A project, and what the caller may do in it."""

    id: Id
    name: str
    org_id: Id
    role: Role | None
    scopes: list[str]


class Me(TypedDict):
    """The caller. `role` and `scopes`: in the project that the request names, or that an API key has. Lists end at 200 items."""

    kind: Literal["user", "api_key"]
    user: UserOut | None
    key_id: Id | None
    organizations: list[MyOrganization]
    projects: list[MyProject]
    project_id: Id | None
    role: Role | None
    scopes: list[str]
    sees_payloads: bool


@with_config(CLOSED)
class PasswordIn(TypedDict):
    """The password there is, and the one there is to be: 12 to 200 characters."""

    current_password: Annotated[str, Field(min_length=1, max_length=PASSWORD_CHARS[1])]
    new_password: Annotated[str, Field(min_length=PASSWORD_CHARS[0], max_length=PASSWORD_CHARS[1])]


@operation(answers={200: Me})
def show(call: Call) -> Answer:
    """Say who is calling: the user with organizations and projects, or the API key with its project; and with which scopes."""
    who = call.principal
    is_user = who.kind == "user"

    def work(store: PostgresStore) -> tuple[User | None, list[Any], list[Any]]:
        if not is_user:
            return None, [], store.projects_of(None, project_id=who.project_id)
        return store.user(user_id=who.id), store.organizations(who.id, limit=SHOWN), store.projects_of(who.id, limit=SHOWN)

    user, organizations, projects = call.database.run(work)
    scopes = sorted(scope.value if hasattr(scope, "value") else scope for scope in who.scopes)
    return Answer(
        {
            "kind": who.kind,
            "user": {"id": user.id, "email": user.email, "full_name": user.full_name} if user else None,
            "key_id": None if is_user else who.id,
            "organizations": [{name: row[name] for name in ("id", "name", "slug", "role")} for row in organizations],
            "projects": [
                {**{name: row[name] for name in ("id", "name", "org_id", "role")}, "scopes": scopes_of(row["role"]) if is_user else scopes}
                for row in projects
            ],
            "project_id": who.project_id or None,
            "role": who.role or None,
            "scopes": scopes,
            "sees_payloads": not who.hides_payloads,
        }
    )


@operation(body=PasswordIn, answers={204: None})
def password(call: Call) -> Answer:
    """Change the password. All other logins of the user end; this one goes on."""
    who, given = call.principal, call.body
    user: User | None = call.plain.run(lambda store: store.user(user_id=who.id))
    if user is None:
        raise unseen("user", who.id)
    account, address = slots_of(call, user.email)
    call.plain.run(
        lambda store: engine.knock(lambda kind, patience: store.count_login(kind, account if kind == "account" else address, patience))
    )
    if not passwords.is_right(user.password_hash, given["current_password"]):
        raise Invalid([Fault(("current_password",), "is not the password there is")])
    password_hash = passwords.hash_password(given["new_password"])

    def work(store: PostgresStore) -> None:
        store.forgive(account, address)
        store.set_password(who.id, password_hash)
        ended = store.end_sessions(who.id, but=who.session_id)
        call.note("user", who.id, after={"tokens_ended": ended})

    call.database.run(work)
    return Answer("", 204)


def scopes_of(role: str) -> list[str]:
    """A role's scopes as the API writes them."""
    return sorted(scope.value for scope in ROLES[role])
