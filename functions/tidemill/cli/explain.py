"""`tidemill explain JOB`: why a job does not run, in words, from what the claim itself reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from tidemill.cli import connection, output
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
    print(f"{job.id}  {job.job_type} in queue {job.queue}: {found['state']}")
    for line in lines(job, found):
        print(line)


def lines(job: Job, found: Mapping[str, Any], now: datetime | None = None) -> Iterable[str]:
    """The answer as people read it. Reasons come in the order in which the claim asks."""
    reasons = found["blocked_by"]
    if found["admissible"]:
        yield "Nothing stands in its way: the next claim of its queue takes it."
    elif reasons:
        yield "It does not run because" + (":" if len(reasons) == 1 else f", in the order in which a claim asks ({len(reasons)}):")
    width = max((len(reason["reason"]) for reason in reasons), default=0)
    for number, reason in enumerate(reasons, 1):
        yield f"  {number}. {reason['reason']:<{width}}  {reason['detail']}{_times(reason, now)}"
    for note in found.get("notes", ()):
        yield f"Note: {note}."
    if (ahead := found["position"]) is not None:
        count = f"{MOST_AHEAD:,} jobs or more stand" if ahead >= MOST_AHEAD else f"{ahead:,} jobs stand" if ahead != 1 else "1 job stands"
        yield f"In front of it: {count if ahead else 'nothing stands'} in its lane (jobs that pass the same limits)."
    if (at := found["estimated_start_at"]) is not None:
        yield f"It may start {output.age(datetime.fromisoformat(at), now)}, at {at}."
    elif reasons and found["state"] in ("pending", "scheduled", "queued"):
        yield "When it may start is not known: not every reason says when it clears."
    if job.actions:
        yield f"You may: {', '.join(job.actions)}."


def _times(reason: Mapping[str, Any], now: datetime | None) -> str:
    since, clears = reason["since"], reason["clears_at"]
    told = [f"since {output.age(datetime.fromisoformat(since), now)}"] if since else []
    told += [f"clears {output.age(datetime.fromisoformat(clears), now)}"] if clears else []
    return f"  ({', '.join(told)})" if told else ""
