"""`tidemill batches`: how far batches are, and their end."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from tidemill.cli import connection, output
from tidemill.cli.asking import confirm
from tidemill.client.models import Batch

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help="List, show, seal and cancel batches.")

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line")]


@app.command("list")
def list_batches(limit: Annotated[int, typer.Option(min=1, help="How many at most")] = 20, as_json: AsJson = False) -> None:
    """List batches, newest first."""
    with connection.client() as client:
        found = list(islice(client.list_batches(), limit))
    if as_json:
        for batch in found:
            output.print_json(batch.raw)
    elif not found:
        print("no such batch")
    else:
        columns = ("id", "name", "status", "total", "pending", "completed", "failed", "cancelled", "created")
        output.print_table(columns, map(_row, found), state_column=2)


@app.command()
def show(batch_id: Annotated[str, typer.Argument(metavar="ID")], as_json: AsJson = False) -> None:
    """Show a batch: its counters, and which callbacks have been created."""
    with connection.client() as client:
        batch = client.get_batch(batch_id)
    if as_json:
        output.print_json(batch.raw)
    else:
        output.print_fields(_fields(batch))


@app.command()
def seal(batch_id: Annotated[str, typer.Argument(metavar="ID")], as_json: AsJson = False) -> None:
    """Say that no more jobs come: the callbacks follow once all have ended."""
    with connection.client() as client:
        _tell(client.seal_batch(batch_id), as_json=as_json)


@app.command()
def cancel(
    batch_id: Annotated[str, typer.Argument(metavar="ID")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    as_json: AsJson = False,
) -> None:
    """Cancel what has not begun, and ask what runs to stop. No callback is created."""
    with connection.client() as client:
        pending = client.get_batch(batch_id).pending
        confirm(f"Cancels what is left of this batch: {pending:,} job{'s' * (pending != 1)}; no callback follows.", yes=yes)
        _tell(client.cancel_batch(batch_id), as_json=as_json)


def _tell(batch: Batch, *, as_json: bool) -> None:
    if as_json:
        output.print_json(batch.raw)
    else:
        print(f"{batch.id}  {batch.status}: {batch.pending:,} pending, {batch.cancelled:,} cancelled of {batch.total:,}")


def _row(batch: Batch) -> tuple[str, ...]:
    counts = (batch.total, batch.pending, batch.completed, batch.failed, batch.cancelled)
    return (batch.id, batch.name or "-", batch.status, *map(str, counts), output.age(batch.created_at))


def _fields(batch: Batch) -> list[tuple[str, str]]:
    callbacks = [f"{name}: {job['job_type']} ({'created' if name in batch.fired else 'waits'})" for name, job in batch.callbacks.items()]
    shown = [
        ("id", batch.id),
        ("name", batch.name),
        ("status", batch.status),
        *((name, str(getattr(batch, name))) for name in ("total", "pending", "completed", "failed", "cancelled")),
        ("callbacks", "\n".join(callbacks)),
        ("error", batch.error or ""),
        *((name, str(batch.raw.get(name) or "")) for name in ("created_at", "sealed_at", "finalized_at")),
    ]
    return [(label, text) for label, text in shown if text]
