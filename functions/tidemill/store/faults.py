"""Turns the driver's errors into ours. No SQL, host or value of a row gets into the text; the SQLSTATE goes along for the log."""

from __future__ import annotations

import psycopg

from tidemill.domain.errors import Fault, Internal, Invalid, TidemillError, Unavailable

# Connection gone, shutting down, no slots left, read-only after a failover, or cancelled by a time-out, or no lock in time: later.
_UNAVAILABLE = ("08", "53", "57", "25006", "58", "55P03")
_RETRIED = ("40001", "40P01")
_DISCARD = ("08", "57P", "25006", "58")


def sqlstate(error: BaseException) -> str:
    """The five characters Postgres gave, or '' if the connection broke before it could."""
    return (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""


def is_repeatable(error: psycopg.Error) -> bool:
    """True if the transaction was rolled back for the sake of another one and may simply run again."""
    return sqlstate(error) in _RETRIED


def breaks_connection(error: psycopg.Error) -> bool:
    """True if the connection must not be used again."""
    state = sqlstate(error)
    return (isinstance(error, psycopg.OperationalError) and (state == "" or state.startswith(_DISCARD))) or state == "25006"


def translated(error: psycopg.Error) -> TidemillError:
    """What a caller may know of `error`."""
    state = sqlstate(error)
    if state == "TM422" or state == "TM409":
        return Invalid([Fault(("jobs",), error.diag.message_primary or "invalid job")])
    if (isinstance(error, psycopg.OperationalError) and state == "") or state.startswith(_UNAVAILABLE):
        return Unavailable("the database cannot answer at the moment: try again", retry_after_secs=2)
    if state in _RETRIED:
        return Unavailable("too many changes to the same jobs at once: try again", retry_after_secs=1)
    if state in ("22P05", "22P02", "22003", "54001", "22001", "23514", "22007", "22008"):
        return Invalid([Fault((), "a value that the database cannot store")])
    return Internal("something went wrong on our side; the request id finds it in the log")
