"""What `tidemill dev` is asked for, and the ways in which it can refuse."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidemill.domain.errors import TidemillError

HOST: Final = "127.0.0.1"
PORT: Final = 8710


class CannotStart(TidemillError):
    """Something in the way that the one who started it can move; the text is one line. Exit code 2."""

    code = "cannot_start"


class BrokeDown(TidemillError):
    """A part ended and could not be brought back. Exit code 1."""

    code = "broke_down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to run. `folder` None = a temporary one that is removed at the end."""

    port: int = PORT
    folder: Path | None = None
    has_worker: bool = True
    handlers: Path | None = None
    """A team's folder: the worker runs the App in it instead of the demo's."""
    app: str = "jobs:app"
    """Where the App is in that folder."""
    ticks: bool = True
    builds_page: bool = False
    """Build the page anew, in the background, whenever its sources are newer than it."""
    as_json: bool = False
    log_level: str = "info"
    tick_budget_ms: int = 800
    server_settings: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the database server, for tests of its limits."""
