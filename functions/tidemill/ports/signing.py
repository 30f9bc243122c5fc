"""Where keys that sign come from: a table of ours, or a vault that the wiring chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class SigningKey(NamedTuple):
    """A key of ours for what the API hands out and takes back. `signs` False: retired, only taken back for a while."""

    kid: str
    secret: bytes
    signs: bool


class SigningKeys(Protocol):
    """The keys of one purpose. Whoever fulfils it may remember them for minutes, but reads again when asked for fresh ones."""

    def read(self, *, fresh: bool = False) -> Sequence[SigningKey]:
        """The newest first. `fresh`: a kid was unknown; read again, though not twice within a second."""
