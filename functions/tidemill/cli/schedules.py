"""`tidemill schedules`: put schedules, see when they fire and what became of it, and steer them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any

import typer

from tidemill.cli import connection, output
from tidemill.cli.asking import confirm
from tidemill.cli.enqueue import duration_ms, json_value

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help="Put, preview, pause, trigger and delete schedules."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line")]
Cron = Annotated[str | None, typer.Option(help="Five fields or an alias: '0 9 * * 1-5', @daily")]
Every = Annotated[str | None, typer.Option(help="Instead of --cron: 90s, 5m, 2h")]
Zone = Annotated[str, typer.Option("--timezone", help="An IANA name such as Europe/Berlin")]


@app.command("list")
def list_schedules(as_json: AsJson = False) -> None:
    """List the schedules by name."""
    with connection.client() as client:
        found = client.list_schedules()
    if as_json:
        for one in found:
            output.print_json(one)
    elif not found:
        print("no schedule yet; tidemill schedules put --help tells how to make one")
    else:
        output.print_table(("name", "when", "zone", "type", "state", "next", "last"), map(_row, found), state_column=4)


@app.command()
def put(
    name: Name,
    job_type: Annotated[str, typer.Option("--type", help="The handler's name, e.g. report.send")],
    cron: Cron = None,
    every: Every = None,
    timezone: Zone = "UTC",
    payload: Annotated[str, typer.Option(help="A JSON object; - reads standard input; {{scheduled_at}} is filled in")] = "{}",
    queue: Annotated[str, typer.Option(help="An existing queue")] = "default",
    on_missed: Annotated[str, typer.Option(help="skip, run_once or backfill")] = "run_once",
    backfill_limit: Annotated[int, typer.Option(min=0, max=1000, help="With backfill: how many at most")] = 0,
    overlap: Annotated[str, typer.Option(help="allow, skip, buffer_one or cancel_running")] = "allow",
    jitter: Annotated[str | None, typer.Option(help="Spread runs over this time: 30s")] = None,
    on_gap: Annotated[str | None, typer.Option(help="A local time that a clock change leaves out: fire_after (default) or skip")] = None,
    on_fold: Annotated[str | None, typer.Option(help="One that comes twice: first (default), second or both")] = None,
    starts_at: Annotated[str | None, typer.Option(help="Not before this instant, RFC 3339")] = None,
    ends_at: Annotated[str | None, typer.Option(help="Not after this instant, RFC 3339")] = None,
    paused: Annotated[bool | None, typer.Option("--paused/--active", help="Default: as it is")] = None,
    as_json: AsJson = False,
) -> None:
    """Create a schedule, or make it what the options say. Unchanged, it keeps its phase."""
    fields: dict[str, Any] = {"timezone": timezone, "on_missed": on_missed, "backfill_limit": backfill_limit, "overlap": overlap}
    fields |= {"cron": cron} if cron is not None else {}
    fields |= {"every_ms": duration_ms(every)} if every is not None else {}
    fields |= {"jitter_ms": duration_ms(jitter)} if jitter is not None else {}
    fields |= {"is_paused": paused} if paused is not None else {}
    given = {"on_gap": on_gap, "on_fold": on_fold, "starts_at": starts_at, "ends_at": ends_at}
    fields |= {field: value for field, value in given.items() if value is not None}
    job = {"job_type": job_type, "queue": queue, "payload": json_value(payload)}
    with connection.client() as client:
        _print(client.put_schedule(name, job=job, **fields), as_json=as_json)


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show everything about a schedule."""
    with connection.client() as client:
        found = client.get_schedule(name)
    if as_json:
        output.print_json(found)
    else:
        output.print_fields([(key, output.text(value)) for key, value in found.items() if value not in (None, "", 0)])


@app.command()
def preview(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A stored schedule; or give --cron or --every")] = None,
    cron: Cron = None,
    every: Every = None,
    timezone: Zone = "UTC",
    after: Annotated[str | None, typer.Option(help="From this instant on, with its offset; default: now")] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=1000, help="How many")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show when a schedule, or an expression that is not stored, fires next."""
    if (name is None) == (cron is None and every is None):
        raise typer.BadParameter("give the name of a schedule, or --cron or --every")
    with connection.client() as client:
        if name is not None:
            found = client.preview_schedule(name, n)
        else:
            timing = {"cron": cron, "every_ms": duration_ms(every) if every else None, "timezone": timezone, "after": after, "n": n}
            found = client.preview_timing(**{key: value for key, value in timing.items() if value is not None})
    if as_json:
        output.print_json(found)
        return
    print(found["description"])
    for fire in found["fires"]:
        print(f"  {fire}  {output.age(datetime.fromisoformat(fire))}")
    for change in found["transitions"]:
        print(f"  clocks: {change['at']}  {change['offset_before']} to {change['offset_after']}")


@app.command()
def pause(name: Name, as_json: AsJson = False) -> None:
    """Pause a schedule; what was made ready for the next seconds is cancelled."""
    _steer(lambda client: client.pause_schedule(name), as_json=as_json)


@app.command()
def resume(name: Name, as_json: AsJson = False) -> None:
    """End a pause, or try again after an error."""
    _steer(lambda client: client.resume_schedule(name), as_json=as_json)


@app.command()
def delete(name: Name, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False, as_json: AsJson = False) -> None:
    """Delete a schedule. Its jobs stay; occurrences that are not due yet are cancelled."""
    with connection.client() as client:
        found = client.get_schedule(name)
        confirm(f"Deletes schedule {name} ({found['description'] or _timing(found)}), for good.", yes=yes)
        client.delete_schedule(name)
    output.print_json({"name": name, "deleted": True}) if as_json else print(f"{name}: deleted")


@app.command()
def trigger(name: Name, as_json: AsJson = False) -> None:
    """Make one job of a schedule now; prints its id and state."""
    with connection.client() as client:
        made = client.trigger_schedule(name)
    if as_json:
        output.print_json(made)
    else:
        note = "  (there already: it holds the unique key)" if made["deduplicated"] else ""
        print(f"{made['job']['id']}  {made['job']['state']}{note}")


@app.command()
def events(name: Name, limit: Annotated[int, typer.Option(min=1, max=100, help="How many at most")] = 20, as_json: AsJson = False) -> None:
    """Show what became of a schedule's occurrences, newest first."""
    with connection.client() as client:
        found = client.schedule_events(name)[:limit]
    if as_json:
        for event in found:
            output.print_json(event)
    elif not found:
        print("nothing has happened yet")
    else:
        rows = [
            (_second(event["at"]), event["kind"], _second(event["scheduled_at"]), event["reason"] or "-", event["job_id"] or "-")
            for event in found
        ]
        output.print_table(("at", "what", "scheduled for", "reason", "job"), rows)


def _steer(verb: Callable[[Any], Mapping[str, Any]], *, as_json: bool) -> None:
    with connection.client() as client:
        _print(verb(client), as_json=as_json)


def _print(schedule: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.print_json(schedule)
    else:
        print(
            f"{schedule['name']}  {_standing(schedule)}  next: {schedule['next_run_at'] or '-'}  {schedule['description'] or ''}".rstrip()
        )


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    job_type = one["job"]["job_type"]
    return (one["name"], _timing(one), one["timezone"], job_type, _standing(one), _at(one["next_run_at"]), _at(one["last_run_at"]))


def _standing(schedule: Mapping[str, Any]) -> str:
    return "error" if schedule["error"] else "paused" if schedule["is_paused"] else "active" if schedule["next_run_at"] else "over"


def _timing(schedule: Mapping[str, Any]) -> str:
    return str(schedule["cron"]) if schedule["cron"] else f"every {schedule['every_ms'] / 1000:g} s"


def _second(at: str) -> str:
    return f"{datetime.fromisoformat(at):%Y-%m-%dT%H:%M:%SZ}"


def _at(text: str | None) -> str:
    return output.age(datetime.fromisoformat(text)) if text else "-"
