"""`tidemill stats`: the project at a glance, or one queue."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Annotated, Any

import typer

from tidemill.cli import connection, output

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

PARTITIONS = 20


@app.command()
def stats(
    queue: Annotated[str | None, typer.Argument(metavar="[QUEUE]", help="One queue, with its partitions")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the API's answer as one JSON line")] = False,
) -> None:
    """Show the project in numbers: jobs by state, workers, rates, and what stands in each queue; or one queue."""
    with connection.client() as client:
        if queue is not None:
            seen = client.queue_stats(queue)
            parts = [] if as_json else list(islice(client.partitions(queue), PARTITIONS + 1))
            latency = {} if as_json else client.latency(queue=queue)
        else:
            seen, latency, parts = client.overview(), {} if as_json else client.latency(), []
    if as_json:
        output.print_json(seen)
    elif queue is not None:
        _print_queue(seen, latency, parts)
    else:
        _print_overview(seen, latency)


def _print_overview(seen: Mapping[str, Any], latency: Mapping[str, Any]) -> None:
    rates = seen["throughput"]
    output.print_fields(
        [
            ("jobs", _states(seen["states"])),
            ("workers", f"{seen['live_workers']} live, {seen['worker_slots']} jobs at once"),
            ("oldest queued", _for(seen["oldest_queued_age_ms"])),
            ("rates", f"{_rate(rates['arrived_per_second'])} arrive, {_rate(rates['completed_per_second'])} complete"),
            ("last hour", f"{seen['failures_1h']:,} attempts failed, {seen['dead_1h']:,} jobs died"),
            *_latency(latency),
            *([("paused", ", ".join(seen["paused_queues"]))] if seen["paused_queues"] else []),
            *_webhook(seen["webhook"]),
        ]
    )
    print()
    columns = ("queue", "queued", "scheduled", "running", "dead", "oldest", "arrive", "complete")
    output.print_table(columns, [_queue_row(row) for row in seen["queues"]])


def _webhook(of: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if of is None or of["status"] != "failing":
        return []
    return [("webhook", f"no call has arrived for {output.age(output.instant(of['failing_since']))}: see tidemill webhook show")]


def _queue_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["name"] + (" (paused)" if row["is_paused"] else ""),
        _count(row["queued"]),
        _count(row["scheduled"]),
        f"{row['claimed'] + row['running']:,}",
        _count(row["dead_letter"]),
        _for(row["oldest_queued_age_ms"]),
        _rate(row["arrived_per_second"]),
        _rate(row["completed_per_second"]),
    )


def _print_queue(seen: Mapping[str, Any], latency: Mapping[str, Any], parts: list[Any]) -> None:
    quiet = seen["quiet"]
    noisy = f"without {', '.join(quiet['noisy'][:5])}: {_count(quiet['queued'])} queued, oldest {_for(quiet['oldest_queued_age_ms'])}"
    size = seen["memory_estimate_bytes"]
    output.print_fields(
        [
            ("queue", seen["name"] + (" (paused)" if seen["is_paused"] else "")),
            ("jobs", _states(seen["states"])),
            ("workers", f"{seen['live_workers']} live, {seen['worker_slots']} jobs at once"),
            ("oldest queued", _for(seen["oldest_queued_age_ms"])),
            ("rates", f"{_rate(seen['arrived_per_second'])} arrive, {_rate(seen['drained_per_second'])} leave"),
            ("drained in", _drained_in(seen)),
            ("last hour", f"{seen['failures_1h']:,} attempts failed, {seen['dead_1h']:,} jobs died"),
            *_latency(latency),
            *([("quiet", noisy)] if quiet["noisy"] else []),
            ("size", f"about {size / 1e6:,.1f} MB" if size is not None else "-"),
        ]
    )
    if len(parts) > 1 or any(part["partition_key"] for part in parts):
        print()
        rows = [
            (part["partition_key"] or "(none)", _count(part["waiting"]), f"{part['running']:,}", str(part["weight"]),
             f"{part['share']:.0%}", _for(part["oldest_queued_age_ms"]))
            for part in parts[:PARTITIONS]
        ]  # fmt: skip
        output.print_table(("partition", "waiting", "running", "weight", "share", "oldest"), rows)
        if len(parts) > PARTITIONS:
            print(f"the first {PARTITIONS} by key; GET /v1/queues/{seen['name']}/partitions has them all")


def _drained_in(seen: Mapping[str, Any]) -> str:
    if not any(seen["states"][state]["count"] for state in ("queued", "claimed", "running")):
        return "nothing waits"
    return "never, at these rates" if seen["time_to_drain_ms"] is None else _for(seen["time_to_drain_ms"])


def _states(states: Mapping[str, Any]) -> str:
    shown = [f"{name} {_count(count)}" for name, count in states.items() if count["count"]]
    return " · ".join(shown) or "none"


def _count(count: Mapping[str, Any]) -> str:
    return f"{'about ' if count['approximate'] and count['count'] else ''}{count['count']:,}"


def _for(ms: int | None) -> str:
    if ms is None:
        return "-"
    return f"{ms} ms" if ms < 1_000 else output.span(ms / 1000)


def _rate(per_second: float) -> str:
    if per_second == 0:
        return "0/s"
    return f"{per_second:,.0f}/s" if per_second >= 10 else f"{per_second:.1f}/s" if per_second >= 1 else f"{per_second * 60:.1f}/min"


def _latency(latency: Mapping[str, Any]) -> list[tuple[str, str]]:
    shown = []
    for label, name in (("waited", "queue_wait"), ("ran", "run_time")):
        found = latency[name]
        if found["count"]:
            shown.append((label, f"{_for(found['p50_ms'])} median, {_for(found['p95_ms'])} p95, {_for(found['p99_ms'])} p99"))
    return shown
