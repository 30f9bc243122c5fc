"""Projects: what separates tenants. Each has its own queues, jobs, schedules, workers and API keys."""

from __future__ import annotations

from typing import NotRequired

from pydantic import with_config
from typing_extensions import TypedDict

from tidemill.domain.errors import Conflict, Forbidden
from tidemill.http import pages
from tidemill.http.admission import unseen
from tidemill.http.fields import CLOSED, Id, Instant, Label
from tidemill.http.ids import new_id
from tidemill.http.job_view import Row, instant
from tidemill.http.me import Role
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.queries import Page
from tidemill.store.postgres import PostgresStore


class ProjectsQuery(Page):
    """All, or those of one organization."""

    org_id: NotRequired[Id]


@with_config(CLOSED)
class ProjectIn(TypedDict):
    """A new project of an organization that the caller owns."""

    org_id: Id
    name: Label


@with_config(CLOSED)
class ProjectEdit(TypedDict):
    """The new name."""

    name: Label


class Project(TypedDict):
    """A project; `role`: the caller's in it (null for an API key)."""

    id: Id
    name: str
    org_id: Id
    role: Role | None
    created_at: Instant
    updated_at: Instant


class ProjectsPage(TypedDict):
    """A page of projects."""

    items: list[Project]
    next_cursor: str | None


@operation(query=ProjectsQuery, answers={200: ProjectsPage}, etag=True)
def list_projects(call: Call) -> Answer:
    """List the projects of the caller's organizations; an API key sees its own."""
    who, org_id = call.principal, call.query.get("org_id")
    user_id, own = (who.id, None) if who.kind == "user" else (None, who.project_id)
    return pages.plain(
        call,
        f"projects {who.id}",
        lambda after, limit: call.database.run(
            lambda store: store.projects_of(user_id, project_id=own, org_id=org_id, after=after, limit=limit)
        ),
        lambda row: row["id"],
        _shown,
    )


@operation(body=ProjectIn, answers={201: Project})
def create(call: Call) -> Answer:
    """Create a project with a queue called `default`. For the organization's owners. 409 if it has one of this name."""
    project_id, org_id, name = str(new_id()), call.body["org_id"], call.body["name"]

    def work(store: PostgresStore) -> Row:
        found = store.organizations(call.principal.id, org_id=org_id)
        if not found:
            raise unseen("organization", org_id)
        if found[0]["role"] != "owner":
            raise Forbidden(f"the role {found[0]['role']} has not the scope owner: only owners create projects")
        store.fence(project_id)
        if not store.create_project(project_id, str(new_id()), org_id, name, created_by=call.principal.id):
            raise Conflict(f"the organization has a project called {name!r}: choose another name")
        store.fence(call.project_id)  # where the note belongs
        made = _row(store, call, project_id)
        call.note("project", project_id, after=_shown(made), org_id=org_id)
        return made

    return Answer(_shown(call.database.run(work)), 201)


@operation(answers={200: Project})
def show(call: Call, id: str) -> Answer:  # noqa: ARG001 - admission has compared it
    """Show a project."""
    return Answer(_shown(call.database.run(lambda store: _row(store, call, call.project_id))))


@operation(body=ProjectEdit, answers={200: Project})
def edit(call: Call, id: str) -> Answer:  # noqa: ARG001 - admission has compared it
    """Rename a project. 409 if the organization has another one of this name."""

    def work(store: PostgresStore) -> Row:
        before = _row(store, call, call.project_id)
        if not store.rename_project(call.project_id, call.body["name"]):
            raise Conflict(f"the organization has a project called {call.body['name']!r}: choose another name")
        after = _row(store, call, call.project_id)
        call.note("project", call.project_id, before={"name": before["name"]}, after={"name": after["name"]}, org_id=after["org_id"])
        return after

    return Answer(_shown(call.database.run(work)))


@operation(answers={204: None})
def delete(call: Call, id: str) -> Answer:  # noqa: ARG001 - admission has compared it
    """Remove an empty project with its queues, policies, schedules and keys. 409 while it holds a job, in whatever state."""

    def work(store: PostgresStore) -> None:
        before = _row(store, call, call.project_id)
        if store.holds_jobs(call.project_id):
            raise Conflict("the project holds jobs: delete them, or let their retention pass, before the project goes")
        store.delete_project(call.project_id)
        call.note("project", call.project_id, before=_shown(before), org_id=before["org_id"])

    call.database.run(work)
    return Answer("", 204)


def _row(store: PostgresStore, call: Call, project_id: str) -> Row:
    found = store.projects_of(call.principal.id if call.principal.kind == "user" else None, project_id=project_id)
    if not found:
        raise unseen("project", project_id)
    return found[0]


def _shown(row: Row) -> Row:
    return row | {name: instant(row[name]) for name in ("created_at", "updated_at")}
