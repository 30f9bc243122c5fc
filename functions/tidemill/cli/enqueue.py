"""`tidemill enqueue`: create one job."""

from __future__ import annotations

import json
import re
import sys
from typing import Annotated, Any

import typer

from tidemill.cli import connection, output
from tidemill.client.fields import JobFields

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int:
    """`500ms`, `90s`, `5m`, `2h` or `1d` in ms."""
    match = re.fullmatch(r"([0-9]{1,12})(ms|s|m|h|d)", text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no duration; write 500ms, 90s, 5m, 2h or 1d")
    return int(match[1]) * _UNITS[match[2]]


def json_value(text: str) -> Any:
    """The JSON value in `text`; `-` reads it from standard input."""
    try:
        return json.loads(sys.stdin.read() if text == "-" else text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"is not JSON: {error}") from None


@app.command()
def enqueue(
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The handler's name, e.g. email.send")],
    payload: Annotated[str, typer.Option(help="JSON; - reads standard input")] = "{}",
    queue: Annotated[str, typer.Option(help="An existing queue")] = "default",
    priority: Annotated[int, typer.Option(help="-32768 to 32767, higher first")] = 0,
    delay: Annotated[str | None, typer.Option(help="Not before this time has passed: 500ms, 90s, 5m, 2h, 1d")] = None,
    run_at: Annotated[str | None, typer.Option(help="Not before this instant, with its offset: 2030-01-01T08:00:00Z")] = None,
    hold: Annotated[bool, typer.Option("--hold", help="Wait until it is promoted")] = False,
    unique_by: Annotated[
        list[str] | None, typer.Option(help="At most one unfinished job with this payload field; may repeat; 'all' = whole payload")
    ] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="The same key gives the same job")] = None,
    max_attempts: Annotated[int | None, typer.Option(help="Including the first")] = None,
    timeout: Annotated[str | None, typer.Option(help="End an attempt that runs longer: 30s, 5m")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="May repeat")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the job as one JSON line")] = False,
) -> None:
    """Create a job; prints its id and state. A key that matches gives the job that is there already."""
    fields: JobFields = {"queue": queue, "priority": priority}
    if delay is not None:
        fields["delay_ms"] = duration_ms(delay)
    if run_at is not None:
        fields["run_at"] = run_at
    if hold:
        fields["hold"] = True
    if unique_by:
        fields["unique"] = {} if unique_by == ["all"] else {"by": unique_by}
    if idempotency_key is not None:
        fields["idempotency_key"] = idempotency_key
    if max_attempts is not None:
        fields["max_attempts"] = max_attempts
    if timeout is not None:
        fields["timeout_ms"] = duration_ms(timeout)
    if tag:
        fields["tags"] = tag
    value = json_value(payload)
    with connection.client() as client:
        made = client.enqueue(job_type, value, **fields)
    if as_json:
        output.print_json({"job": made.job.raw, "deduplicated": made.deduplicated})
    else:
        print(f"{made.id}  {made.job.state}" + ("  (was there already)" if made.deduplicated else ""))
