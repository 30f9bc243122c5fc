"""Ids: UUIDv7 (RFC 9562 §5.7), sortable by the time they were made. Loads no pydantic."""

from __future__ import annotations

import os
import re
import time
import uuid
from typing import Final

_ID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def id_of(text: str) -> str | None:
    """The id in lower case; None if it is not of the form 8-4-4-4-12 hex digits."""
    return text.lower() if _ID.fullmatch(text) else None


def new_id() -> uuid.UUID:
    """A fresh id from this machine's clock, which orders ids and decides nothing."""
    random = int.from_bytes(os.urandom(10), "big")
    value = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80 | random
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=value)
