"""Where a call goes: the host's name is looked up now, all its addresses are judged, and the connection goes to the one that was."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Final

from tidemill.domain.webhooks import may_call

TRIED: Final = 3
NOT_ALLOWED: Final = "the host leads to an address that is not public"


class NoWay(Exception):
    """The call cannot be made; the text says why, in words for the webhook's owner."""


def looked_up(host: str, port: int) -> list[str]:
    """The host's addresses, in the system's order."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NoWay("the host's name leads nowhere") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def connected(scheme: str, host: str, port: int, *, is_local: bool, until: float) -> socket.socket:
    """A connection to one of the host's addresses, all of which may be called. `until`: of the monotonic clock. NoWay, OSError."""
    addresses = looked_up(host, port)
    if not may_call(addresses, scheme=scheme, is_local=is_local):
        raise NoWay(NOT_ALLOWED)
    return _first(addresses[:TRIED], port, until)


def _first(addresses: Sequence[str], port: int, until: float) -> socket.socket:
    failure: OSError = OSError("no address")
    for address in addresses:
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        try:
            return socket.create_connection((address, port), timeout=left_s)
        except OSError as error:
            failure = error
    raise failure
