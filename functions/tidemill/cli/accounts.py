"""`tidemill accounts`: who may use a stage. `bootstrap` talks to the database, everything else logs in to the API."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from tidemill.cli import connection, output
from tidemill.cli.faults import database_faults
from tidemill.domain.errors import Fault, Invalid

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True,
    help="Make the first owner; see and change members and projects. All but the first two log in, with TIDEMILL_EMAIL"
    " and TIDEMILL_PASSWORD or those of `tidemill dev`.",
)  # fmt: skip
members = typer.Typer(no_args_is_help=True, help="Who is in an organization, and with which role.")
projects = typer.Typer(no_args_is_help=True, help="What separates tenants: each has its own queues, jobs and keys.")
app.add_typer(members, name="members")
app.add_typer(projects, name="projects")

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line")]
Org = Annotated[str | None, typer.Option("--org", help="The organization's slug or id; not needed where there is one")]
Email = Annotated[str, typer.Argument(metavar="EMAIL", help="Whom it is about")]
Role = Annotated[str, typer.Option("--role", help="viewer, operator, admin or owner")]


@app.command()
def bootstrap(
    email: Annotated[str, typer.Option(help="The first owner's")],
    dsn: Annotated[str | None, typer.Option(help="postgresql://…; else TIDEMILL_DATABASE_URL")] = None,
    organization: Annotated[str, typer.Option(help="Its name")] = "My organization",
    slug: Annotated[str, typer.Option(help="Its short name; one that exists is used")] = "default",
    project: Annotated[str, typer.Option(help="The first project's name")] = "default",
    stage: Annotated[str | None, typer.Option(help="The second part of API keys; else TIDEMILL_STAGE")] = None,
    with_key: Annotated[bool, typer.Option("--key", help="Make an API key with every scope, too")] = False,
    reset: Annotated[bool, typer.Option("--reset-password", help="An owner who exists gets a new password, and all logins end")] = False,
    password_stdin: Annotated[bool, typer.Option("--password-stdin", help="Read the password; else one is made and printed once")] = False,
    as_json: AsJson = False,
) -> None:
    """Make organization, owner, project and queue where they are not there yet. A repeat changes nothing."""
    from dataclasses import asdict

    from tidemill.config import Settings
    from tidemill.store.database import connect
    from tidemill.store.first_owner import make_owner

    password = sys.stdin.readline().rstrip("\n") if password_stdin else None
    with database_faults(), connect(connection.database_url(dsn)) as conn:
        owner = make_owner(
            conn, email, stage=stage or Settings.read().stage, organization=organization, slug=slug, project=project, password=password,
            reset=reset, with_key=with_key,
        )  # fmt: skip
    if as_json:
        output.print_json(asdict(owner))
        return
    shown = {name.replace("_", " "): value for name, value in asdict(owner).items() if isinstance(value, str)}
    output.print_fields(shown.items())
    if not owner.is_new:
        print("the owner was there already and keeps the password; --reset-password sets a new one")
    elif owner.password or owner.api_key:
        print("password and key are shown only now; change the password with: tidemill accounts password")


@app.command("rotate-signing-key")
def rotate_signing_key(
    dsn: Annotated[str | None, typer.Option(help="postgresql://…; else TIDEMILL_DATABASE_URL")] = None,
    purpose: Annotated[str, typer.Option(help="session (access tokens) or cursor (where lists go on)")] = "session",
    leaked: Annotated[bool, typer.Option("--leaked", help="What the old keys signed is refused: all have to refresh their tokens")] = False,
    as_json: AsJson = False,
) -> None:
    """Make the next key that signs. The scheduler does so every 90 days; what the last one signed is taken for an hour more."""
    from tidemill.store.database import connect
    from tidemill.store.signing import rotate_signing_key as rotate

    with database_faults(), connect(connection.database_url(dsn)) as conn:
        made = rotate(conn, purpose, has_leaked=leaked)
    if as_json:
        output.print_json(made._asdict())
        return
    print(f"{made.kid}  signs {made.purpose}s from now on")
    print("what older keys signed is refused within five minutes" if leaked else "what older keys signed is taken for an hour more")


@app.command()
def me(as_json: AsJson = False) -> None:
    """Show who is logged in, with organizations, projects and roles."""
    with connection.account() as account:
        found = account.me()
    if as_json:
        output.print_json(found)
        return
    print(found["user"]["email"])
    rows = [("organization", row["id"], row["name"], row["role"]) for row in found["organizations"]]
    rows += [("project", row["id"], row["name"], row["role"]) for row in found["projects"]]
    output.print_table(("what", "id", "name", "role"), rows)


@app.command()
def password(
    password_stdin: Annotated[bool, typer.Option("--password-stdin", help="Read the new one; else it is asked for")] = False,
) -> None:
    """Change your password. All other logins end."""
    new = sys.stdin.readline().rstrip("\n") if password_stdin else typer.prompt("New password", hide_input=True, confirmation_prompt=True)
    with connection.account() as account:
        account.change_password(new)
    print("changed; every other login has ended")


@members.command("list")
def list_members(org: Org = None, as_json: AsJson = False) -> None:
    """List the members of an organization."""
    with connection.account() as account:
        found = account.members(_org_id(account.me(), org))
    if as_json:
        for one in found:
            output.print_json(one)
    else:
        rows = [(one["id"], one["email"], one["role"], one["full_name"] or "-", "yes" if one["is_active"] else "no") for one in found]
        output.print_table(("id", "email", "role", "name", "active"), rows)


@members.command()
def add(
    email: Email, role: Role, org: Org = None, name: Annotated[str, typer.Option(help="The full name")] = "", as_json: AsJson = False
) -> None:
    """Let somebody in; a new account's first password is printed once."""
    with connection.account() as account:
        made = account.add(_org_id(account.me(), org), email, role, name)
    if as_json:
        output.print_json(made)
        return
    print(f"{made['id']}  {made['email']}  {made['role']}")
    print(f"first password: {made['initial_password']}  (shown only now)" if made["initial_password"] else "the account keeps its password")


@members.command("role")
def set_role(email: Email, role: Role, org: Org = None, as_json: AsJson = False) -> None:
    """Give a member another role; it counts with the next request."""
    with connection.account() as account:
        org_id = _org_id(account.me(), org)
        found = account.set_role(org_id, _user_id(account.members(org_id), email), role)
    output.print_json(found) if as_json else print(f"{found['id']}  {found['email']}  {found['role']}")


@members.command()
def remove(email: Email, org: Org = None) -> None:
    """Take a member out. The last owner stays."""
    with connection.account() as account:
        org_id = _org_id(account.me(), org)
        account.remove(org_id, _user_id(account.members(org_id), email))
    print(f"{email}  removed")


@projects.command("list")
def list_projects(as_json: AsJson = False) -> None:
    """List the projects of all your organizations."""
    with connection.account() as account:
        found = account.projects()
    if as_json:
        for one in found:
            output.print_json(one)
    else:
        output.print_table(("id", "name", "organization", "role"), [(one["id"], one["name"], one["org_id"], one["role"]) for one in found])


@projects.command("create")
def create_project(name: Annotated[str, typer.Argument(metavar="NAME")], org: Org = None, as_json: AsJson = False) -> None:
    """Make a project with a queue called default."""
    with connection.account() as account:
        made = account.create_project(_org_id(account.me(), org), name)
    output.print_json(made) if as_json else print(f"{made['id']}  {made['name']}")


@projects.command("rename")
def rename_project(project: Annotated[str, typer.Argument(metavar="ID")], name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Give a project another name."""
    with connection.account() as account:
        found = account.rename_project(project, name)
    print(f"{found['id']}  {found['name']}")


@projects.command("delete")
def delete_project(project: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Remove a project that holds no job, with its queues, schedules and keys."""
    with connection.account() as account:
        account.delete_project(project)
    print(f"{project}  deleted")


def _org_id(me: Mapping[str, Any], wanted: str | None) -> str:
    mine: Sequence[Mapping[str, Any]] = me["organizations"]
    found = [row for row in mine if wanted in (None, row["id"], row["slug"])]
    if len(found) != 1:
        there = ", ".join(row["slug"] for row in mine) or "none"
        raise Invalid([Fault(("--org",), f"name one of your organizations: {there}")])
    return str(found[0]["id"])


def _user_id(found: Sequence[Mapping[str, Any]], email: str) -> str:
    for one in found:
        if email.lower() in (one["email"], one["id"]):
            return str(one["id"])
    raise Invalid([Fault(("email",), f"{email} is no member of this organization")])
