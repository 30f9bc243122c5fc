"""Questions before what cannot be taken back."""

from __future__ import annotations

import sys

import typer

from tidemill.cli.app import MISUSED, REFUSED


def confirm(what: str, *, yes: bool) -> None:
    """Says what is about to happen and asks; ends the command unless the answer is yes. `yes`: it was given with the command."""
    if yes:
        return
    print(what)
    if not sys.stdin.isatty():
        print("tidemill: nobody is there to be asked: give --yes", file=sys.stderr)
        raise typer.Exit(MISUSED)
    if not typer.confirm("Go on?", default=False):
        print("nothing was done")
        raise typer.Exit(REFUSED)
