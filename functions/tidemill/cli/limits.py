"""`tidemill limits`: standing limits on how many jobs of a queue, or of a job type, run at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tidemill.cli import connection, output

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help="List, put and delete standing limits on concurrency."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The limit's name")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line")]
COLUMNS = ("name", "on", "at most", "running", "when full")


@app.command("list")
def list_limits(as_json: AsJson = False) -> None:
    """List the standing limits by name, with what runs under them."""
    with connection.client() as client:
        found = client.list_limits()
    if as_json:
        for one in found:
            output.print_json(one)
    elif not found:
        print("there are no standing limits")
    else:
        output.print_table(COLUMNS, map(_row, found))


@app.command()
def put(
    name: Name,
    max_concurrent: Annotated[int, typer.Option(min=0, help="Jobs at once, over all workers; 0: none")],
    queue: Annotated[str | None, typer.Option(help="The limit is on this queue")] = None,
    job_type: Annotated[str | None, typer.Option("--type", help="The limit is on this job type, over all queues")] = None,
    on_saturated: Annotated[str | None, typer.Option(help="queue, or cancel_running: ask the oldest of lowest priority to stop")] = None,
    as_json: AsJson = False,
) -> None:
    """Create a standing limit, or change it. What runs already counts; what waits already has to pass it."""
    if (queue is None) == (job_type is None):
        raise typer.BadParameter("give either --queue or --type")
    with connection.client() as client:
        found = client.put_limit(name, max_concurrent=max_concurrent, queue=queue, job_type=job_type, on_saturated=on_saturated)
    if as_json:
        output.print_json(found)
    else:
        output.print_fields(list(zip(COLUMNS, _row(found), strict=True)))


@app.command()
def delete(name: Name, as_json: AsJson = False) -> None:
    """Delete a standing limit: what waited for it may go."""
    with connection.client() as client:
        client.delete_limit(name)
    output.print_json({"name": name, "deleted": True}) if as_json else print(f"{name}: deleted")


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    on = f"queue {one['queue']}" if one["queue"] is not None else f"type {one['job_type']}"
    rule = "asks to stop" if one["on_saturated"] == "cancel_running" else "waits"
    return (one["name"], on, f"{one['max_concurrent']:,}", f"{one['running']:,}", rule)
