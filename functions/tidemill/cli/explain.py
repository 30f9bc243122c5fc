"""`tidemill explain JOB`: why a job does not run, in words, from what the claim itself reads."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from tidemill.cli import connection, output
from tidemill.cli.remedies import remedies
from tidemill.client.models import Job

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

MOST_AHEAD: Final = 1_000


@app.command()
def explain(
    job_id: Annotated[str, typer.Argument(metavar="JOB", help="The job's id")],
    as_json: Annotated[bool, typer.Option("--json", help="The API's answer as one JSON line")] = False,
) -> None:
    """Say why a job does not run: each reason with its evidence, what stands in front of it, and when it may start."""
    with connection.client() as client:
        found = client.explain(job_id)
        job = None if as_json else client.get_job(job_id)
    if job is None:
        output.print_json(found)
        return
    for line in (f"{job.id}  {job.job_type} in queue {job.queue}: {found['state']}", *lines(job, found)):
        print(_wrapped(line))


def lines(job: Job, found: Mapping[str, Any], now: datetime | None = None) -> Iterable[str]:
    """The answer as people read it. Reasons come in the order in which the claim asks, each with the way out of it."""
    reasons, ahead = found["blocked_by"], found["position"]
    if found["admissible"]:
        yield (
            "No limit holds it back: it waits for its turn."
            if ahead
            else "Nothing stands in its way: the next claim of its queue takes it."
        )
        if sticky := job.raw.get("sticky_worker"):
            yield f"While a worker named {sticky} is live, only that one may take it; else any may."
    elif reasons:
        yield "It does not run because" + (":" if len(reasons) == 1 else f", in the order in which a claim asks ({len(reasons)}):")
    width = max((len(reason["reason"]) for reason in reasons), default=0)
    for number, reason in enumerate(reasons, 1):
        yield f"  {number}. {reason['reason']:<{width}}  {reason['detail']}{_times(reason, now)}"
        for way in remedies(job, reason):
            yield f"     {'':<{width}}→ {way}"
    for note in found.get("notes", ()):
        yield f"Note: {note}."
    if ahead:
        count = f"{MOST_AHEAD:,} jobs or more" if ahead >= MOST_AHEAD else f"{ahead:,} job{'s' * (ahead != 1)}"
        part = job.raw.get("partition_key")
        turns = "; other partitions of the queue have their turns, too" if part else ""
        yield f"In front of it: {count}{f' of partition {part}' if part else ''} under the same limits{turns}."
    if (at := found["estimated_start_at"]) is not None:
        yield f"It may start {output.age(datetime.fromisoformat(at), now)}, at {at}."
    elif reasons and found["state"] in ("pending", "scheduled", "queued"):
        yield "When it may start is not known: not every reason says when it clears."
    if job.actions:
        yield f"You may: {', '.join(job.actions)}."


def _wrapped(line: str) -> str:
    """In a terminal, with what does not fit below where the text began; in a pipe a line stays one."""
    if not sys.stdout.isatty():
        return line
    begins = re.match(r" *(\d+\. \S+ +|→ )?", line)
    indent = " " * (begins.end() if begins else 0)
    return textwrap.fill(
        line, output.console().width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )


def _times(reason: Mapping[str, Any], now: datetime | None) -> str:
    since, clears = reason["since"], reason["clears_at"]
    told = [f"since {output.age(datetime.fromisoformat(since), now)}"] if since else []
    told += [f"clears {output.age(datetime.fromisoformat(clears), now)}"] if clears else []
    return f"  ({', '.join(told)})" if told else ""
