"""What `tidemill dev` leaves in its data folder for the next start and for the CLI: one file that only its owner may read."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

FILE_NAME = "dev.json"
FOLDER_NAME = ".tidemill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Key, login and address of a local instance. Secrets are not in its repr."""

    api_key: str = field(repr=False)
    admin_email: str
    admin_password: str = field(repr=False)
    project_id: str | None = None
    """Known once the database has been made."""
    url: str | None = None
    """Where it was served last; whether it still is, only a request tells."""
    dsn: str | None = field(default=None, repr=False)


def default_folder(cwd: Path | None = None) -> Path:
    """The data folder when none is named: `.tidemill` here if there is one, else that of the checkout this code runs from, else here."""
    here = (cwd or Path.cwd()) / FOLDER_NAME
    checkout = Path(__file__).resolve().parents[2]
    if not here.is_dir() and (checkout / "scripts" / "dev").is_file():
        return checkout / FOLDER_NAME
    return here


def read(folder: Path) -> Credentials | None:
    """What the folder keeps; None if it keeps nothing that can be read. OSError if the file is there and shut."""
    try:
        kept: Any = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
        known = {entry.name for entry in fields(Credentials)}
        return Credentials(**{name: value for name, value in kept.items() if name in known})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, AttributeError):
        return None  # cut off or edited: as good as none


def write(folder: Path, credentials: Credentials) -> None:
    """Keep them: whole or not at all, and never readable by another user, not even for a moment."""
    descriptor, name = tempfile.mkstemp(prefix=FILE_NAME, dir=folder)  # made with mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(credentials), file, indent=2)
        Path(name).replace(folder / FILE_NAME)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
