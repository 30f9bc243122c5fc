"""`tidemill keys`: the API keys of the project that TIDEMILL_API_KEY belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from tidemill.cli import connection, output
from tidemill.cli.enqueue import duration_ms

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help="List, create, rotate and revoke API keys."
)

KeyId = Annotated[str, typer.Argument(metavar="ID", help="The key's id, as the list shows it")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line")]
SHOWN_ONCE = "shown only now; the database keeps a hash"


@app.command("list")
def list_keys(
    every: Annotated[bool, typer.Option("--all", help="Expired and revoked ones too")] = False,
    as_json: AsJson = False,
) -> None:
    """List the project's keys in the order they were made."""
    with connection.client() as client:
        found = [key for key in client.list_keys() if every or _standing(key) == "live"]
    if as_json:
        for key in found:
            output.print_json(key)
        return
    rows = [
        (key["id"], key["name"], " ".join(key["scopes"]), _standing(key), _ago(key["last_used_at"]), _ago(key["expires_at"]))
        for key in found
    ]
    output.print_table(("id", "name", "scopes", "state", "last used", "expires"), rows, state_column=3)


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for")],
    scopes: Annotated[list[str], typer.Option("--scope", help="enqueue, work, read, operate or admin; repeat it for several")],
    expires: Annotated[str | None, typer.Option(help="Ends after: 12h, 90d; default: never")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. Its text is printed once and cannot be read again."""
    until = datetime.now(UTC) + timedelta(milliseconds=duration_ms(expires)) if expires else None
    with connection.client() as client:
        _print_new(client.create_key(name, scopes, expires_at=until), as_json=as_json)


@app.command()
def rotate(
    key_id: KeyId,
    overlap: Annotated[str, typer.Option(help="How long the old key goes on: 0s, 10m, 24h; at most 30d")] = "1h",
    as_json: AsJson = False,
) -> None:
    """Make a key like this one, which ends after the overlap."""
    with connection.client() as client:
        made = client.rotate_key(key_id, overlap_ms=duration_ms(overlap))
    _print_new(made, as_json=as_json)
    if not as_json:
        print(f"the old key {key_id} ends in {overlap}: put the new one in its place until then")


@app.command()
def revoke(key_id: KeyId, as_json: AsJson = False) -> None:
    """End a key; within a minute nothing takes it any more."""
    with connection.client() as client:
        found = client.revoke_key(key_id)
    if as_json:
        output.print_json(found)
    else:
        print(f"{found['id']}  {found['name']}  revoked")


def _print_new(key: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.print_json(key)
        return
    print(key["api_key"])  # alone on its line, to copy or to pipe
    output.print_fields(
        [("id", key["id"]), ("scopes", " ".join(key["scopes"])), ("expires", key["expires_at"] or "never"), ("note", SHOWN_ONCE)]
    )


def _standing(key: Mapping[str, Any]) -> str:
    if key["revoked_at"]:
        return "revoked"
    until = key["expires_at"]
    return "expired" if until and datetime.fromisoformat(until) <= datetime.now(UTC) else "live"


def _ago(text: str | None) -> str:
    return output.age(datetime.fromisoformat(text)) if text else "-"
