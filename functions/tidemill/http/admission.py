"""Who may call a route, and what they see then. The one place where scopes are checked.

An API key has its scopes in its one project. Who is logged in has those of the role in the organization that the request is
about: that of `/v1/organizations/{id}`, or of the project named by `/v1/projects/{id}` or the header `X-Tidemill-Project`.
The role is read with each request, so that a change of it counts at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tidemill.domain.errors import Fault, Forbidden, Invalid, NotFound
from tidemill.http.ids import id_of
from tidemill.http.request import Principal, Request, unauthenticated
from tidemill.http.routes import ROLES, Route, Scope

if TYPE_CHECKING:
    from tidemill.store.database import Database

HEADER: Final = "x-tidemill-project"


def admitted(request: Request, route: Route, parameters: Mapping[str, str], database: Database) -> Principal:
    """Who is calling, with what they may do here. Unauthenticated, Forbidden, or NotFound for what is not theirs to know of."""
    assert route.scopes is not None
    principal = request.principal()
    about = _project_named(request, route, parameters)
    if principal.kind == "user":
        principal = _in_role(principal, route, parameters, about, database)
    if principal.scopes.isdisjoint(route.scopes):
        needed = " or ".join(scope.value for scope in route.scopes)
        holder = f"the role {principal.role}" if principal.role else "a login" if principal.kind == "user" else "this key"
        raise Forbidden(f"{holder} has not the scope {needed}: use one that has")
    if principal.kind != "user" and about is not None and id_of(about) != principal.project_id:
        raise unseen("project", about)
    return principal


def unseen(kind: str, name: str) -> NotFound:
    """What is not there, or not the caller's: nobody learns which."""
    error = NotFound(kind, name)
    error.detail = f"no {kind} {name[:100].encode('ascii', 'replace').decode()!r} that you can see"
    return error


def _project_named(request: Request, route: Route, parameters: Mapping[str, str]) -> str | None:
    if route.path.startswith("/v1/projects/{id}"):
        return parameters["id"]
    return request.headers.get(HEADER)


def _in_role(principal: Principal, route: Route, parameters: Mapping[str, str], about: str | None, database: Database) -> Principal:
    assert route.scopes is not None
    is_of_organization = route.path.startswith("/v1/organizations/{id}")
    kind, name = ("organization", parameters["id"]) if is_of_organization else ("project", about)
    found_id = id_of(name) if name is not None else None
    standing = database.run(
        lambda store: store.standing(
            principal.id,
            principal.session_id,
            project_id=None if is_of_organization else found_id,
            org_id=found_id if is_of_organization else None,
        )
    )
    if standing is None:
        raise unauthenticated()
    if name is None:
        if Scope.MEMBER not in route.scopes:
            raise Invalid([Fault(("header", HEADER), "name the project: who is logged in may have several, see GET /v1/projects")])
        return replace(principal, scopes=frozenset({Scope.MEMBER}))
    if found_id is None or standing.role is None or standing.org_id is None:
        raise unseen(kind, name)
    return replace(
        principal, project_id="" if is_of_organization else found_id, scopes=ROLES[standing.role], role=standing.role,
        org_id=standing.org_id, hides_payloads=standing.hides_payloads,
    )  # fmt: skip
