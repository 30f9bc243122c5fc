"""The table of commands, and how one is run. A new command is a module with a `typer.Typer` called `app`, and a line here.

Modules are named, not imported: `tidemill --help` loads none of them, and no command pays for another.
"""

from __future__ import annotations

import difflib
import sys
from importlib import import_module
from typing import Final

from tidemill.domain.errors import TidemillError, Unavailable

DONE, REFUSED, MISUSED, AWAY = 0, 1, 2, 3

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "dev": ("tidemill.local.command", "Run the whole product on this machine: database, API, ticks, a demo worker"),
    "worker": ("tidemill.cli.worker", "Run the jobs of an app: tidemill worker myapp.jobs:app"),
    "enqueue": ("tidemill.cli.enqueue", "Create a job"),
    "jobs": ("tidemill.cli.jobs", "List, show and move jobs; their logs and timeline"),
    "explain": ("tidemill.cli.explain", "Say why a job does not run"),
    "queues": ("tidemill.cli.queues", "List, show, create, set, pause, resume and delete queues"),
    "rate-classes": ("tidemill.cli.rate_classes", "List, put, pause, resume and delete rate classes"),
    "limits": ("tidemill.cli.limits", "List, put and delete standing limits on concurrency"),
    "retry-policies": ("tidemill.cli.retry_policies", "List, create, set and delete retry policies"),
    "schedules": ("tidemill.cli.schedules", "Put, preview, pause, trigger and delete schedules"),
    "batches": ("tidemill.cli.batches", "List, show, seal and cancel batches"),
    "dead-letters": ("tidemill.cli.dead_letters", "List dead jobs by time or kind of error; retry and discard them"),
    "workers": ("tidemill.cli.workers", "List, show and command workers"),
    "doctor": ("tidemill.cli.doctor", "Look at a database and say what is wrong with it and what to do"),
    "quarantine": ("tidemill.cli.quarantine", "List, release and discard jobs that took their workers with them"),
    "operations": ("tidemill.cli.operations", "Retry, cancel, delete, discard or promote many jobs: plan, apply, undo"),
    "accounts": ("tidemill.cli.accounts", "Make the first owner; see and change members and projects"),
    "keys": ("tidemill.cli.keys", "List, create, rotate and revoke API keys"),
    "audit": ("tidemill.cli.audit", "Show who changed what, before and after"),
    "webhook": ("tidemill.cli.webhook", "Have dead jobs told to a URL: show, set, rotate, test, delete"),
    "stats": ("tidemill.cli.stats", "Show the project, or one queue, in numbers"),
    "tick": ("tidemill.cli.tick", "Run one scheduler pass now"),
    "migrate": ("tidemill.cli.migrate", "Bring a database to the version of this code"),
    "demo": ("tidemill.cli.demo", "Run over a thousand real jobs through kills and restarts, and prove the totals"),
    "version": ("tidemill.cli.version", "Say which version this is, and which one the API is"),
}

_FOOT = """
Where to: TIDEMILL_URL and TIDEMILL_API_KEY; without them the instance of `tidemill dev`, found by its data folder.
Exit codes: 0 done · 1 refused, or failed for some of several · 2 wrong use · 3 unreachable at the moment."""


def run(arguments: list[str]) -> int:
    """Runs the command that the first word names; its exit code."""
    name, rest = (arguments[0], arguments[1:]) if arguments else ("--help", [])
    if name in ("--help", "-h", "help"):
        print(overview())
        return DONE
    if name in ("--version", "-V"):
        name = "version"
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COMMANDS)}"
        print(f"tidemill: there is no command {name!r}; {hint}", file=sys.stderr)
        return MISUSED
    try:
        return _run(name, rest)
    except TidemillError as error:
        print(f"tidemill: {one_line(error)}", file=sys.stderr)
        return exit_code(error)


def overview() -> str:
    """What `tidemill --help` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(["Usage: tidemill COMMAND …      (tidemill COMMAND --help tells more)", "", *lines, _FOOT])


def one_line(error: TidemillError) -> str:
    """The error as people read it: what is wrong, and the way to find it in the log if it is ours."""
    request_id = getattr(error, "request_id", "") if error.code == "internal" else ""
    return " ".join(error.detail.split()) + (f" (request id {request_id})" if request_id else "")


def exit_code(error: TidemillError) -> int:
    """The exit code that an error means."""
    if isinstance(error, Unavailable):
        return AWAY
    return MISUSED if error.code in ("settings_invalid", "nowhere_to_go") else REFUSED


def _run(name: str, arguments: list[str]) -> int:
    import typer

    try:
        app = import_module(COMMANDS[name][0]).app
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tidemill"):
            raise
        print(f"tidemill: {name} needs the package {error.name}; install tidemill[local]", file=sys.stderr)
        return MISUSED
    try:
        typer.main.get_command(app).main(arguments, prog_name=f"tidemill {name}")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else DONE if ended.code is None else REFUSED
    return DONE
