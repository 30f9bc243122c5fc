"""JSON in one canonical form, numbers exact, and digests of it.

Postgres' jsonb keeps a number's digits but not its exponent: 1e23 would come back as an integer. `canonical_json`
writes floats in full (`100000000000000000000000.0`), so a float stays a float and an integer of any size an integer.
The one number that does not come back as sent is -0.0: Postgres' numeric has no such zero, so it is stored as 0.0.
"""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from typing import Any, Final

# Made once: json.dumps with any setting of its own makes one per call, which is half of what a small value costs.
_SORTED: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_AS_GIVEN: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> str:
    """`value` as compact JSON with sorted keys and exact numbers. NaN and infinities raise ValueError."""
    text = _SORTED.encode(value)
    return _full(value) if _may_hold_exponent(text) else text


def compact_json(value: Any) -> str:
    """Like `canonical_json` with the keys in the order given."""
    text = _AS_GIVEN.encode(value)
    return _full(value, sort=False) if _may_hold_exponent(text) else text


def digest(value: Any) -> int:
    """64 bits that two different JSON values share only by bad luck; signed, to fit a bigint."""
    raw = hashlib.blake2b(canonical_json(value).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(raw, "big", signed=True)


def _may_hold_exponent(text: str) -> bool:
    return "e+" in text or "e-" in text


def _full(value: Any, *, sort: bool = True) -> str:
    """JSON text of `value` in which no number has an exponent."""
    match value:
        case bool() | None | str():
            return json.dumps(value, ensure_ascii=False)
        case int():
            return int.__repr__(value)
        case float():
            text = format(Decimal(repr(value)), "f")
            return text if "." in text else text + ".0"
        case dict():
            items = sorted(value.items()) if sort else value.items()
            return "{" + ",".join(f"{json.dumps(str(k), ensure_ascii=False)}:{_full(v, sort=sort)}" for k, v in items) + "}"
        case list() | tuple():
            return "[" + ",".join(_full(v, sort=sort) for v in value) + "]"
        case _:
            raise TypeError(f"{type(value).__name__} is not a JSON value")
