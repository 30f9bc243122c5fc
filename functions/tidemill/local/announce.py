"""Says where the instance is and how to get in: one JSON line for programs, a few lines for people."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from tidemill import credentials
from tidemill.credentials import Credentials


@dataclass(frozen=True, slots=True)
class Ready:
    """What there is to tell."""

    credentials: Credentials
    took_s: float
    folder: Path
    is_ephemeral: bool
    log_path: Path | None
    has_worker: bool
    ticks: bool


def json_line(ready: Ready) -> str:
    """The one line of `--json`."""
    ours = ready.credentials
    return json.dumps(
        {
            "url": ours.url, "api_key": ours.api_key, "project_id": ours.project_id, "admin_email": ours.admin_email,
            "admin_password": ours.admin_password, "dsn": ours.dsn, "page": f"{ours.url}/",
        }
    )  # fmt: skip


def rows(ready: Ready) -> list[tuple[str, str]]:
    """Label and value, in the order people look for them."""
    ours = ready.credentials
    kept = "temporary, removed at the end" if ready.is_ephemeral else "kept; the next start finds everything again"
    parts = [name for name, runs in (("a tick every second", ready.ticks), ("a demo worker", ready.has_worker)) if runs]
    found = [
        ("URL", str(ours.url)),
        ("API key", ours.api_key),
        ("login", f"{ours.admin_email}  {ours.admin_password}"),
        ("project", str(ours.project_id)),
        ("database", str(ours.dsn)),
        ("data", f"{ready.folder} ({kept})"),
        ("runs", ", ".join(["the API", *parts])),
    ]
    return [*found, ("logs", str(ready.log_path))] if ready.log_path else found


def is_found_by_itself(ready: Ready) -> bool:
    """Does a command in this folder find the instance without being told where it is?"""
    return ready.folder.resolve() == credentials.default_folder().resolve()


def tell(ready: Ready, *, as_json: bool) -> None:
    """Print it on standard output, at once."""
    if as_json:
        print(json_line(ready), flush=True)
        return
    if not sys.stdout.isatty():
        print(f"tidemill is ready ({ready.took_s:.1f} s)")
        print("\n".join(f"{label:9} {value}" for label, value in rows(ready)), flush=True)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows(ready):
        table.add_row(label, Text(value, style="bold cyan" if label == "URL" else ""))
    console.print(Text.assemble(("tidemill", "bold"), " is ready ", (f"({ready.took_s:.1f} s)", "dim")))
    console.print(table)
    if not is_found_by_itself(ready):
        print(f"\nexport TIDEMILL_URL={ready.credentials.url} TIDEMILL_API_KEY={ready.credentials.api_key}")  # in one piece, to copy
    console.print(Text.assemble(("\ntry  ", "dim"), 'tidemill enqueue demo.hello --payload \'{"name": "you"}\''))
    console.print(Text("Ctrl-C ends everything; twice ends it at once", style="dim"))
