"""`tidemill workers`: who works, and commands for them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import typer

from tidemill.cli import connection, output
from tidemill.cli.app import AWAY, REFUSED, exit_code, one_line
from tidemill.domain.errors import TidemillError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help="List, show and command workers.")

Ids = Annotated[list[str], typer.Argument(metavar="ID…", help="One or more worker ids")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line")]


@app.command("list")
def list_workers(
    state: Annotated[str | None, typer.Option(help="live or stale")] = None,
    queue: Annotated[str | None, typer.Option(help="Only those of this queue")] = None,
    version: Annotated[str | None, typer.Option(help="Only this version of the app")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most")] = 50,
    as_json: AsJson = False,
) -> None:
    """List workers in the order they came."""
    with connection.client() as client:
        found = list(islice(client.list_workers(state=state, queue=queue, version=version), limit))
    if as_json:
        for worker in found:
            output.print_json(worker)
    elif not found:
        print("no such worker")
    else:
        output.print_table(("id", "name", "state", "jobs", "cpu", "memory", "version", "queues", "seen"), map(_row, found), state_column=2)


@app.command()
def show(ids: Ids, as_json: AsJson = False) -> None:
    """Show everything about workers."""

    def one(client: Any, worker_id: str) -> Mapping[str, Any]:
        worker: Mapping[str, Any] = client.get_worker(worker_id)
        if not as_json:
            output.print_fields((name, _text(value)) for name, value in worker.items() if value is not None)
            print()
        return worker

    _each(ids, one, as_json=as_json)


@app.command()
def quiet(ids: Ids, as_json: AsJson = False) -> None:
    """Let workers finish what they have and claim nothing more."""
    _command(ids, "quiet", as_json=as_json)


@app.command()
def resume(ids: Ids, as_json: AsJson = False) -> None:
    """Let quiet workers claim again."""
    _command(ids, "resume", as_json=as_json)


@app.command()
def restart(ids: Ids, as_json: AsJson = False) -> None:
    """Let workers finish, end, and be started again by whoever looks after them."""
    _command(ids, "restart", as_json=as_json)


@app.command()
def terminate(ids: Ids, as_json: AsJson = False) -> None:
    """Let workers finish and end."""
    _command(ids, "terminate", as_json=as_json)


def _command(ids: list[str], command: str, *, as_json: bool) -> None:
    def one(client: Any, worker_id: str) -> Mapping[str, Any]:
        client.command_worker(worker_id, command)
        if not as_json:
            print(f"{worker_id}  {command}, with its next heartbeat")
        return {"worker_id": worker_id, "command": command}

    _each(ids, one, as_json=as_json)


def _each(ids: list[str], call: Any, *, as_json: bool) -> None:
    """Each id by itself; exit 1 if any failed, at once with 3 if nothing can be reached."""
    failed = False
    with connection.client() as client:
        for worker_id in ids:
            try:
                told = call(client, worker_id)
            except TidemillError as error:
                if exit_code(error) == AWAY:
                    raise
                failed = True
                if as_json:
                    output.print_json({"worker_id": worker_id, "error": {"code": error.code, "detail": error.detail}})
                else:
                    print(f"{worker_id}  failed: {one_line(error)}")
                continue
            if as_json:
                output.print_json(told)
    if failed:
        raise typer.Exit(REFUSED)


def _row(worker: Mapping[str, Any]) -> tuple[str, ...]:
    state = worker["status"] if worker["is_live"] else "stale"
    jobs = f"{worker['active_job_count']}/{worker['max_concurrency']}"
    cpu = f"{worker['cpu_percent']:.0f} %" if worker["cpu_percent"] is not None else "-"
    memory = f"{worker['memory_mb']:.0f} MB" if worker["memory_mb"] is not None else "-"
    seen = output.age(datetime.fromisoformat(worker["last_seen_at"]))
    return (worker["id"], worker["name"], state, jobs, cpu, memory, worker["version"] or "-", ", ".join(worker["queues"]), seen)


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
