"""`tidemill operations`: retry, cancel, delete, discard or promote many jobs in two steps, and watch it happen."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Annotated, Any, Final

import typer

from tidemill.cli import connection, output
from tidemill.cli.app import REFUSED
from tidemill.cli.asking import confirm
from tidemill.cli.watching import watch
from tidemill.cli.words import summary, touched

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True,
    help="Move many jobs at once: plan, then apply.",
)  # fmt: skip

Id = Annotated[str, typer.Argument(metavar="ID", help="The operation's id")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Follow it to its end")]
Text = Annotated[str | None, typer.Option()]

ENDED: Final = ("completed", "failed", "aborted", "undone")


@app.command("list")
def list_operations(limit: Annotated[int, typer.Option(min=1, help="How many at most")] = 20, as_json: AsJson = False) -> None:
    """List operations, newest first."""
    with connection.client() as client:
        found = list(islice(client.list_operations(), limit))
    if as_json:
        for one in found:
            output.print_json(one)
    elif not found:
        print("no operation yet; tidemill operations plan --help tells how to make one")
    else:
        output.print_table(("id", "action", "status", "planned", "done", "skipped", "filter", "created"), map(_row, found), state_column=2)


@app.command()
def plan(
    action: Annotated[str, typer.Argument(metavar="ACTION", help="retry, cancel, delete, discard or promote")],
    queue: Annotated[str | None, typer.Option(help="Only this queue")] = None,
    job_type: Annotated[str | None, typer.Option("--type", help="Only this job type")] = None,
    job_type_prefix: Annotated[str | None, typer.Option("--type-prefix", help="Only job types that begin so")] = None,
    state: Annotated[list[str] | None, typer.Option(help="Only this state; may repeat")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only with this tag; may repeat: all of them")] = None,
    any_tag: Annotated[list[str] | None, typer.Option(help="Only with one of these tags; may repeat")] = None,
    error_class: Annotated[str | None, typer.Option(help="Only what failed of this")] = None,
    error_group: Annotated[str | None, typer.Option(help="Only dead letters of this group")] = None,
    batch: Annotated[str | None, typer.Option(help="Only members of this batch")] = None,
    partition_key: Text = None,
    rate_class: Text = None,
    priority: Annotated[int | None, typer.Option()] = None,
    worker: Annotated[str | None, typer.Option(help="Only what this worker holds")] = None,
    created_after: Annotated[str | None, typer.Option(help="RFC 3339, such as 2027-01-31T09:00:00Z")] = None,
    created_before: Annotated[str | None, typer.Option(help="RFC 3339")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what an action would touch, and keep that as a plan. Moves nothing."""
    given: dict[str, Any] = {
        "queue": queue, "job_type": job_type, "job_type_prefix": job_type_prefix, "state": state or None, "tag": tag or None,
        "any_tag": any_tag or None, "error_class": error_class, "error_group": error_group, "batch_id": batch,
        "partition_key": partition_key, "rate_class": rate_class, "priority": priority, "worker_id": worker,
        "created_after": created_after, "created_before": created_before,
    }  # fmt: skip
    with connection.client() as client:
        found = client.plan_operation(action, **{name: value for name, value in given.items() if value is not None})
    if as_json:
        output.print_json(found)
        return
    print(touched(found))
    output.print_fields(_kinds(found))
    if found["estimate"]["count"]:
        print(f"\nNothing has moved yet. To do it:\n  tidemill operations apply {found['id']}")


@app.command()
def apply(
    operation_id: Id,
    yes: Yes = False,
    allow_drift: Annotated[bool, typer.Option("--allow-drift", help="Also if more jobs match by now than were planned")] = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Carry out a plan: says what it will touch, asks, and shows how far it is."""
    with connection.client() as client:
        found = client.get_operation(operation_id)
        if found["status"] == "planned":
            confirm(touched(found), yes=yes)
        if found["status"] not in ("applying", "completed"):
            found = client.apply_operation(operation_id, allow_drift=allow_drift)
        if wait:
            found = watch(client, found, until=ENDED, quiet=as_json)
    _tell(found, as_json=as_json)


@app.command()
def show(operation_id: Id, as_json: AsJson = False) -> None:
    """Show an operation: its plan, and what has become of it."""
    with connection.client() as client:
        found = client.get_operation(operation_id)
    if as_json:
        output.print_json(found)
    else:
        output.print_fields(_fields(found))


@app.command()
def abort(operation_id: Id, as_json: AsJson = False) -> None:
    """End an operation between two of its batches; what it has done stays done."""
    with connection.client() as client:
        _tell(client.abort_operation(operation_id), as_json=as_json)


@app.command()
def undo(operation_id: Id, yes: Yes = False, wait: Wait = True, as_json: AsJson = False) -> None:
    """Put the jobs of a cancel or a discard back where they were, as far as they are kept."""
    with connection.client() as client:
        found = client.get_operation(operation_id)
        if "undo" in found["actions"]:
            confirm(f"Puts back up to {found['affected']:,} jobs that this {found['action']} moved.", yes=yes)
        if found["status"] not in ("undoing", "undone"):
            found = client.undo_operation(operation_id)
        if wait:
            found = watch(client, found, until=("undone",), quiet=as_json)
    _tell(found, as_json=as_json)


def _tell(found: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.print_json(found)
    else:
        print(f"{found['id']}  {summary(found)}")
    if found["status"] == "failed":
        raise typer.Exit(REFUSED)


def _row(found: Mapping[str, Any]) -> tuple[str, ...]:
    conditions = " ".join(f"{name}={','.join(value) if isinstance(value, list) else value}" for name, value in found["filter"].items())
    counts = (f"{found['estimate']['count']:,}", f"{found['affected']:,}", f"{found['skipped']:,}")
    return (found["id"], found["action"], found["status"], *counts, conditions, output.age(output.instant(found["created_at"])))


def _kinds(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    counts = found.get("counts") or {}
    shown = [("by state", "\n".join(f"{count:>9,}  {state}" for state, count in (counts.get("by_state") or {}).items()))]
    for label, name in (("by type", "by_job_type"), ("by error", "by_error_class")):
        shown.append((label, "\n".join(f"{kind['count']:>9,}  {kind['name'] or 'others'}" for kind in counts.get(name) or ())))
    return [(label, text) for label, text in shown if text]


def _fields(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    conditions = ", ".join(f"{name} {', '.join(value) if isinstance(value, list) else value}" for name, value in found["filter"].items())
    shown = [
        ("id", found["id"]), ("action", found["action"]), ("status", found["status"]), ("filter", conditions),
        ("planned", f"{'at least ' * found['estimate']['approximate']}{found['estimate']['count']:,}"), *_kinds(found),
        ("total", "" if found["total"] is None else f"{found['total']:,}"), ("done", f"{found['affected']:,}"),
        ("skipped", "\n".join(f"{count:>9,}  {reason}" for reason, count in found["skips"].items())),
        ("undo", summary(found) if found["undo"] else ""), ("error", found["error"] or ""), ("may", ", ".join(found["actions"])),
        *((name, str(found[name] or "")) for name in ("created_at", "applied_at", "finished_at")),
    ]  # fmt: skip
    return [(label, text) for label, text in shown if text]
