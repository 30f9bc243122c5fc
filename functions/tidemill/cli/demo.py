"""`tidemill demo`: over a thousand real jobs through a kill and a restart, and the proof that none was lost or done twice."""

from __future__ import annotations

import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from tidemill.cli import output
from tidemill.cli.app import REFUSED
from tidemill.cli.demo_files import expected, library, oddities
from tidemill.cli.demo_jobs import JOB_TYPE, SUM_TYPE, TICK_TYPE
from tidemill.cli.demo_jobs import app as jobs
from tidemill.cli.demo_proof import Proof, prove, prove_schedule, prove_sum
from tidemill.cli.demo_stack import DemoBroken, Stack, kill
from tidemill.domain.errors import Unavailable
from tidemill.domain.limits import BULK_JOBS

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

LEASE_SECS: Final = 5
PATIENCE_SECS: Final = 120.0
LOOK_SECS: Final = 0.05
APP: Final = "tidemill.cli.demo_jobs:app"
Incident = tuple[float, str, Callable[[], None]]
"""From which share of the jobs on, what is said, what is done."""


class Source(StrEnum):
    """How the workers get their jobs."""

    POSTGRES = "postgres"
    HTTP = "http"


@app.command()
def demo(
    source: Annotated[Source, typer.Option(help="How the workers get their jobs.")] = Source.POSTGRES,
    pause_ms: Annotated[int, typer.Option(min=0, max=10_000, help="Added to each job, so that there is a middle to be killed in.")] = 5,
    most: Annotated[int | None, typer.Option(min=100, help="At most so many files (a shorter demo).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line instead of a progress bar and words.")] = False,
) -> None:
    """Count every .py file of the standard library with two workers; kill one, restart Postgres, and prove the totals.

    Exit 1 if the proof fails.
    """
    with tempfile.TemporaryDirectory(prefix="tidemill-demo-") as folder:
        proof = _run(Path(folder), source.value, pause_ms, most, as_json)
    if as_json:
        output.print_json({"source": source.value, **proof.as_json()})
    else:
        _tell(proof)
    if proof.faults:
        raise typer.Exit(REFUSED)


def _run(folder: Path, source: str, pause_ms: int, most: int | None, quiet: bool) -> Proof:
    from tidemill.cli.demo_eyes import Eyes

    odd = folder / "odd"
    odd.mkdir()
    paths = [*oddities(odd), *library()[:most]]
    say: Callable[[str], None] = _silence if quiet else output.console().print
    say(f"{len(paths):,} files; starting an instance with a database of its own")
    with Stack(folder / "log") as stack, Eyes(stack.dsn) as eyes:
        data_folder = eyes.ask(lambda reads: reads.data_folder())
        _enqueue(stack, source, paths, pause_ms)
        _schedule(stack)
        options = ("--concurrency", "4", "--lease-secs", str(LEASE_SECS), "--stop-window-secs", "10")
        victim, _ = (stack.worker(source, APP, "--name", name, *options) for name in ("first", "second"))
        incidents: list[Incident] = [
            (0.2, "killing a worker (SIGKILL)", lambda: kill(victim)),
            (0.5, "restarting Postgres", lambda: stack.restart_database(data_folder)),
        ]
        _follow(lambda: eyes.ask(lambda reads: reads.progress(stack.project_id, JOB_TYPE)), len(paths), incidents, say, quiet)
        _follow(lambda: eyes.ask(lambda reads: reads.progress(stack.project_id, SUM_TYPE)), 1, [], say, quiet=True)
        _follow(lambda: eyes.ask(lambda reads: reads.progress(stack.project_id, TICK_TYPE)), 1, [], say, quiet=True)
        found = eyes.ask(lambda reads: reads.outcomes(stack.project_id, JOB_TYPE))
        sums = eyes.ask(lambda reads: reads.outcomes(stack.project_id, SUM_TYPE))
        occurrences = eyes.ask(lambda reads: reads.outcomes(stack.project_id, TICK_TYPE))
    proof = prove(found, expected(paths))
    prove_sum(proof, sums)
    prove_schedule(proof, occurrences)
    return proof


def _silence(_: str) -> None:
    pass


def _enqueue(stack: Stack, source: str, paths: list[str], pause_ms: int) -> None:
    from tidemill.client import Client
    from tidemill.engine import batch
    from tidemill.store.database import connect
    from tidemill.store.postgres import PostgresStore

    objects = [jobs.job_object(JOB_TYPE, {"path": path, "pause_ms": pause_ms}) for path in paths]
    parts = [objects[at : at + BULK_JOBS] for at in range(0, len(objects), BULK_JOBS)]
    callbacks = {"on_complete": {"job_type": SUM_TYPE}}
    if source == "http":
        with Client(stack.url, stack.api_key) as client:
            made = client.create_batch("demo", callbacks=callbacks)
            for part in parts:
                client.add_to_batch(made.id, part)
            client.seal_batch(made.id)
        return
    batch_id = str(uuid.uuid4())
    with connect(stack.dsn) as conn:
        store = PostgresStore(conn)
        batch.create(store, stack.project_id, batch_id, name="demo", callbacks=callbacks)
        for part in parts:
            batch.add(store, stack.project_id, batch_id, part)
        batch.seal(store, stack.project_id, batch_id)


def _schedule(stack: Stack) -> None:
    """Fires every second while the rest runs, through the kill and the restart."""
    from tidemill.client import Client

    with Client(stack.url, stack.api_key) as client:
        client.put_schedule("demo", every_ms=1_000, job={"job_type": TICK_TYPE, "priority": 10, "payload": {"path": "{{scheduled_at}}"}})


def _follow(
    look: Callable[[], tuple[int, int, int]],
    total: int,
    incidents: list[Incident],
    say: Callable[[str], None],
    quiet: bool,
) -> None:
    """Watches until all have ended; brings each incident about once that share has. DemoBroken if nothing moves for two minutes."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    pause, done, moved_at = threading.Event(), 0, time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with nullcontext() if quiet else Progress(*columns, console=output.console()) as bar:
        task = bar.add_task("jobs", total=total) if bar is not None else None
        while done < total:
            pause.wait(LOOK_SECS)
            try:
                completed, dead, _ = look()
            except Unavailable:
                completed, dead = done, 0  # the database is being restarted: look again
            if completed + dead > done:
                done, moved_at = completed + dead, time.monotonic()
            if bar is not None and task is not None:
                bar.update(task, completed=done)
            while incidents and done >= incidents[0][0] * total:
                _, words, bring_about = incidents.pop(0)
                say(words)
                bring_about()
            if time.monotonic() - moved_at > PATIENCE_SECS:
                raise DemoBroken(f"{done:,} of {total:,} jobs have ended, and none for {PATIENCE_SECS:.0f} s")


def _tell(proof: Proof) -> None:
    words = output.console()
    words.print(f"{proof.jobs:,} jobs: {proof.completed:,} completed, {proof.unreadable} files unreadable (dead letters)")
    words.print(f"{proof.bytes:,} bytes and {proof.lines:,} lines; {proof.run_again} jobs ran again after the kill")
    words.print(f"the batch's callback summed up {proof.summed_up:,} jobs, once")
    words.print(f"the schedule fired {proof.fired} times meanwhile, each second once")
    words.print(f"{proof.jobs_per_s:,.0f} jobs/s over {proof.secs:.1f} s")
    words.print(f"queue wait p50 {proof.wait_p50_ms:,.0f} ms, p95 {proof.wait_p95_ms:,.0f} ms")
    for fault in proof.faults[:20]:
        words.print(f"WRONG: {fault}")
    words.print("Proved: totals equal a direct count, and each job ended exactly once by its ack" if not proof.faults else "NOT proved")
