"""`scripts/bench`: measures, prints a table, and as JSON where asked. Ends by itself; its server is its own."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks import measure, web
from benchmarks.admin import admin_rows
from benchmarks.clients import clients
from benchmarks.explain import explain_rows
from benchmarks.gates import gates_rows
from benchmarks.operations import operations_rows
from benchmarks.results import Row, show
from benchmarks.rig import commit_ms, make_base, server

SECTIONS = ("drain", "pick-up", "snapshot", "enqueue", "operations", "admin", "explain", "gates", "http")

ALONE: Final = {"operations": operations_rows, "admin": admin_rows, "explain": explain_rows, "gates": gates_rows}
"""Sections with databases of their own; explain adds to the rows that admin has looked at."""


def main() -> int:
    """Exit status."""
    asked = _arguments()
    console = Console(stderr=asked.json, width=None if sys.stderr.isatty() else 170)
    size = measure.QUICK if asked.quick else measure.Size()
    size = replace(size, **{key: value for key in ("runs", "jobs", "others") if (value := getattr(asked, key)) is not None})
    began = time.monotonic()

    def say(line: str) -> None:
        console.print(f"[dim]{time.monotonic() - began:6.0f} s  {line}[/dim]", highlight=False)

    rows: list[Row] = []
    with ExitStack() as stack:
        running = stack.enter_context(server(asked.commit_delay_us, asked.data_dir))
        crowd = stack.enter_context(clients(8))
        clean = make_base(running, "bench_clean")
        bases = [clean]
        if size.others and {"enqueue", "drain", "pick-up"} & set(asked.only):
            say(f"filling a second database with {size.others:,} scheduled and {size.others:,} finished jobs")
            bases.append(make_base(running, "bench_full", size.others))
        commit = commit_ms(clean)
        rows.append(Row("commit", "one row, one client", "ms", [commit]))
        say(f"one commit takes {commit:.2f} ms")
        if "drain" in asked.only:
            rows += measure.drains(bases, crowd, size, say)
        if "pick-up" in asked.only:
            rows += measure.pick_ups(bases, commit_ms(clean), size, say)
        if "snapshot" in asked.only:
            ours, bare = ([make_base(running, f"bench_{name}_{kind}") for kind in ("clean", "held")] for name in ("churn", "bare"))
            rows += measure.churns(ours, bare, crowd, size, say)
        if "enqueue" in asked.only:
            rows += measure.enqueues(bases, crowd, size, say)  # last of these: nobody drains what it leaves
        for name, rows_of in ALONE.items():
            if name in asked.only:
                rows += rows_of(running, size, say)
        if "http" in asked.only:
            rows += web.requests(size, say)
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    title = f"tidemill beside a bare psycopg loop: medians of {size.runs}; {machine}; commit_delay {asked.commit_delay_us} µs"
    show(rows, title, console)
    if asked.json:
        answer = {
            "machine": machine,
            "commit_delay_us": asked.commit_delay_us,
            "size": asdict(size),
            "secs": round(time.monotonic() - began),
        }
        print(json.dumps({**answer, "rows": [row.as_json() for row in rows]}))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=sys.modules["benchmarks"].__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers, about two minutes: shows that it works, not how fast it is")
    parser.add_argument("--json", action="store_true", help="one JSON line on stdout; the table goes to stderr")
    parser.add_argument("--only", type=_sections, default=list(SECTIONS), metavar=",".join(SECTIONS), help="sections, separated by commas")
    parser.add_argument("--runs", type=int, help="runs of each measurement (3)")
    parser.add_argument("--jobs", type=int, help="jobs of one drain (20,000)")
    parser.add_argument("--others", type=int, help="scheduled and finished rows beside the measured ones (1,000,000 each; 0 = none)")
    parser.add_argument("--commit-delay-us", type=int, default=0, metavar="US", help="hold every commit this long (1000 is near 1.2 ms)")
    parser.add_argument("--data-dir", type=Path, help="folder of the server, such as one on another disk; default: a temporary one")
    return parser.parse_args()


def _sections(text: str) -> list[str]:
    given = text.split(",")
    if unknown := [name for name in given if name not in SECTIONS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: sections are {', '.join(SECTIONS)}")
    return given


if __name__ == "__main__":
    sys.exit(main())
