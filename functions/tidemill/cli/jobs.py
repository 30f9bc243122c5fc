"""`tidemill jobs`: look at jobs and move them by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Annotated, Any

import typer

from tidemill.cli import connection, output
from tidemill.cli.app import AWAY, REFUSED, exit_code, one_line
from tidemill.cli.asking import confirm
from tidemill.cli.enqueue import duration_ms
from tidemill.client.models import Job
from tidemill.domain.errors import TidemillError

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help="List, show and move jobs; their logs and timeline."
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The job's id")]
Ids = Annotated[list[str], typer.Argument(metavar="ID…", help="One or more job ids")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line")]


@app.command("list")
def list_jobs(
    queue: Annotated[str | None, typer.Option(help="Only this queue")] = None,
    job_type: Annotated[str | None, typer.Option("--type", help="Only this job type")] = None,
    state: Annotated[list[str] | None, typer.Option(help="Only this state; may repeat; also: retrying")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only with this tag; may repeat: all of them")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most")] = 20,
    sort: Annotated[str, typer.Option(help="created_at, run_at, finalized_at; - in front: newest first")] = "-created_at",
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    filters: dict[str, Any] = {"queue": queue, "job_type": job_type, "state": state or None, "tag": tag or None, "sort": sort}
    with connection.client() as client:
        found = list(islice(client.list_jobs(page_size=min(limit, 200), **filters), limit))
    if as_json:
        for job in found:
            output.print_json(job.raw)
    elif not found:
        print("no such job")
    else:
        columns = ("id", "type", "queue", "state", "attempts", "due", "created")
        output.print_table(columns, map(_row, found), state_column=3)


@app.command()
def show(ids: Ids, as_json: AsJson = False) -> None:
    """Show everything about jobs."""

    def one(client: Any, job_id: str) -> Job:
        job: Job = client.get_job(job_id)
        if not as_json:
            output.print_fields(_fields(job))
            print()
        return job

    _each(ids, one, as_json=as_json, shows=True)


@app.command()
def cancel(
    ids: Ids, force: Annotated[bool, typer.Option("--force", help="End running ones at once")] = False, as_json: AsJson = False
) -> None:
    """Cancel jobs. Running ones are asked to stop."""
    _each(ids, lambda client, job_id: client.cancel(job_id, force=force), as_json=as_json, note=(("claimed", "running"), "asked to stop"))


@app.command()
def retry(ids: Ids, as_json: AsJson = False) -> None:
    """Put dead-lettered jobs back at their first attempt."""
    _each(ids, lambda client, job_id: client.retry(job_id), as_json=as_json)


@app.command()
def promote(ids: Ids, as_json: AsJson = False) -> None:
    """Let held or scheduled jobs go now."""
    _each(ids, lambda client, job_id: client.promote(job_id), as_json=as_json)


@app.command()
def reschedule(
    ids: Ids,
    run_at: Annotated[str | None, typer.Option("--run-at", help="An instant, RFC 3339: 2027-01-31T09:00:00Z")] = None,
    delay: Annotated[str | None, typer.Option(help="Or from now: 90s, 5m, 2h, 1d")] = None,
    as_json: AsJson = False,
) -> None:
    """Give waiting jobs another time."""
    if (run_at is None) == (delay is None):
        raise typer.BadParameter("give either --run-at or --delay")
    at = run_at or (datetime.now(UTC) + timedelta(milliseconds=duration_ms(delay or ""))).isoformat()
    _each(ids, lambda client, job_id: client.reschedule(job_id, at), as_json=as_json)


@app.command()
def rerun(ids: Ids, as_json: AsJson = False) -> None:
    """Make a fresh copy of each job, due now, without its keys; prints the copies."""
    _each(ids, lambda client, job_id: client.rerun(job_id).job, as_json=as_json)


@app.command()
def delete(ids: Ids, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False, as_json: AsJson = False) -> None:
    """Delete jobs with their history, for good. Not while a worker holds them."""
    confirm(f"Deletes {len(ids)} job{'s' * (len(ids) != 1)}, with their history, for good.", yes=yes)

    def one(client: Any, job_id: str) -> Job:
        job: Job = client.get_job(job_id)
        client.delete(job_id)
        return replace(job, state="deleted")

    _each(ids, one, as_json=as_json)


@app.command()
def logs(
    job_id: Id, level: Annotated[str | None, typer.Option(help="At least so grave: debug, info, warning or error")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most")] = 1_000, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Print what a job's attempts have logged, oldest first."""
    with connection.client() as client:
        for line in islice(client.logs(job_id, level=level), limit):
            output.print_json(line) if as_json else print(f"{line['ts']}  {line['level']:<7}  {line['message']}")


@app.command()
def events(job_id: Id, as_json: AsJson = False) -> None:
    """Print a job's timeline: what happened to it, and when."""
    with connection.client() as client:
        for event in client.events(job_id):
            if as_json:
                output.print_json(event)
                continue
            about = [f"{name} {event[key]}" for name, key in (("attempt", "attempt"), ("worker", "worker_id")) if event[key] is not None]
            print("  ".join([event["at"], f"{event['event']:<12}", *about, *([event["detail"]] if event["detail"] else [])]).rstrip())


def _each(
    ids: list[str],
    call: Callable[[Any, str], Job],
    *,
    as_json: bool,
    shows: bool = False,
    note: tuple[tuple[str, ...], str] = ((), ""),
) -> None:
    """Each id by itself, a line for each; exit 1 if any failed, at once with 3 if nothing can be reached.

    shows: the job itself is what is wanted, and `call` has printed it for people. note: a word for jobs in these states.
    """
    failed = False
    with connection.client() as client:
        for job_id in ids:
            try:
                job = call(client, job_id)
            except TidemillError as error:
                if exit_code(error) == AWAY:
                    raise
                failed = True
                if as_json:
                    output.print_json({"job_id": job_id, "error": {"code": error.code, "detail": error.detail}})
                else:
                    print(f"{job_id}  failed: {one_line(error)}")
                continue
            if as_json:
                output.print_json(job.raw if shows else {"job_id": job.id, "state": job.state})
            elif not shows:
                print(f"{job.id}  {job.state}" + (f" ({note[1]})" if job.state in note[0] else ""))
    if failed:
        raise typer.Exit(REFUSED)


def _row(job: Job) -> tuple[str, ...]:
    attempts = f"{job.attempt_count}/{job.max_attempts}" if job.max_attempts else str(job.attempt_count)
    due = output.age(job.run_at) if job.state in ("scheduled", "pending") else "-"
    return (job.id, job.job_type, job.queue, job.state, attempts, due, output.age(job.created_at))


def _fields(job: Job) -> list[tuple[str, str]]:
    """What is set, the well-known first, then the rest as the API names it."""
    first = ["id", "job_type", "queue", "state", "attempt_count", "max_attempts", "priority", "run_at", "created_at", "finalized_at"]
    names = [name for name in first if name in job.raw] + [name for name in job.raw if name not in first]
    return [(name, _text(job.raw[name])) for name in names if job.raw[name] not in (None, [], {}) or name == "payload"]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False)
