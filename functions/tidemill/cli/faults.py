"""Turns the database driver's errors into one line of ours, for the commands that talk to a database directly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidemill.domain.errors import TidemillError, Unavailable


class DatabaseRefused(TidemillError):
    """The database said no. Unlike the API's callers, whoever runs this command may read why."""

    code = "database_refused"


@contextmanager
def database_faults() -> Iterator[None]:
    """Within it, psycopg's errors become Unavailable or DatabaseRefused with the database's own first line."""
    import psycopg

    from tidemill.store import faults

    try:
        yield
    except psycopg.Error as error:
        text = (error.diag.message_primary or str(error) or type(error).__name__).splitlines()[0]
        kind = Unavailable if isinstance(faults.translated(error), Unavailable) else DatabaseRefused
        raise kind(f"database: {text}") from error
