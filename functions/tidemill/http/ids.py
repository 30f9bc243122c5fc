"""New ids: UUIDv7 (RFC 9562 §5.7), sortable by the time they were made."""

from __future__ import annotations

import os
import time
import uuid


def new_id() -> uuid.UUID:
    """A fresh id from this machine's clock, which orders ids and decides nothing."""
    random = int.from_bytes(os.urandom(10), "big")
    value = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80 | random
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=value)
