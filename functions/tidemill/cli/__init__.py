"""The command `tidemill`. `main` is the entry point; what it can do is the table in `app.py`, one module per command."""

from __future__ import annotations

import os
import signal
import sys


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; the exit code. Loads that command's module and nothing of the others'.

    0 done · 1 refused, or failed for some of several things · 2 wrong use, or something in the way of the start ·
    3 the API or the database cannot be reached at the moment.
    """
    if sys.version_info < (3, 11):  # noqa: UP036 - whoever runs it on an older one should read why it fails
        found = ".".join(str(part) for part in sys.version_info[:3])
        print("tidemill: needs Python 3.11 or newer, this is " + found, file=sys.stderr)
        return 2
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] in (["dev"], ["worker"]):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _end)  # until what it starts has handlers of its own, nothing is to be taken down

    from tidemill.cli.app import run

    return run(arguments)


def _end(*_: object) -> None:
    os._exit(0)
