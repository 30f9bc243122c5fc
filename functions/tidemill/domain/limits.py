"""Every published bound, in one place (API.md §0). Sizes in bytes, durations in ms, lengths in characters."""

from __future__ import annotations

import re
from typing import Final

PAYLOAD_BYTES: Final = 256 * 1024
BULK_JOBS: Final = 1_000
BULK_BYTES: Final = 4 * 1024 * 1024
BODY_BYTES: Final = BULK_BYTES
JSON_DEPTH: Final = 128
NUMBER_DIGITS: Final = 4_300
TAGS: Final = 20
TAG_CHARS: Final = 64
HEADERS: Final = 32
HEADERS_BYTES: Final = 8 * 1024
NAME_CHARS: Final = 200
KEY_CHARS: Final = 255
DEPENDS_ON: Final = 1_000
PRIORITY: Final = (-32_768, 32_767)
INT32: Final = (-(2**31), 2**31 - 1)
MAX_ATTEMPTS: Final = (1, 1_000)
DEFAULT_MAX_ATTEMPTS: Final = 5
LEASE_MS: Final = (1_000, 43_200_000)
TIMEOUT_MS: Final = (1, 43_200_000)
DELAY_MS: Final = (0, 315_360_000_000)
RETENTION_MS: Final = (0, 315_360_000_000)
WEIGHT: Final = (1, 1_000_000)
CONCURRENCY: Final = (1, 1_000_000)
RATE: Final = (1, 1_000_000_000)
WINDOW_MS: Final = (1, 2_678_400_000)
BACKOFF_MS: Final = 2_678_400_000
MULTIPLIER: Final = (1.0, 100.0)
CLAIM_JOBS: Final = (1, 500)
CLAIM_QUEUES: Final = 100
FULL_QUEUE_RETRY_SECS: Final = 2
WAIT_MS: Final = (0, 20_000)
ACKS: Final = 500
HEARTBEAT_LEASES: Final = 1_000
ERROR_BYTES: Final = 8 * 1024
ERROR_CLASS_CHARS: Final = 200
EXECUTIONS_KEPT: Final = 100
LOG_LINES_PER_CALL: Final = 500
LOG_LINES_KEPT: Final = 10_000
LOG_MESSAGE_CHARS: Final = 8_000
RESULT_BYTES: Final = 256 * 1024
PROGRESS_MESSAGE_CHARS: Final = 1_000
PAGE_ROWS: Final = (1, 200)
PAGE_DEFAULT: Final = 50
PAGE_BYTES: Final = 4 * 1024 * 1024
SCAN_ROWS: Final = 2_500
RUN_AT_YEARS: Final = (1970, 9_999)

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,199}\Z")
NAME_RULE: Final = "must be 1 to 200 characters of [A-Za-z0-9][A-Za-z0-9_.:/-]*"


def is_name(text: str) -> bool:
    """True if `text` may name a job type, queue, class or policy."""
    return NAME.match(text) is not None


def clip(text: str, limit_bytes: int) -> str:
    """`text` cut to at most `limit_bytes` of UTF-8 without splitting a character; a cut text ends in an ellipsis."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit_bytes:
        return text
    return raw[: limit_bytes - 3].decode("utf-8", "ignore") + "…"
