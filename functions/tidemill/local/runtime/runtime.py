"""All functions of an instance: started, invoked by name, ended together."""

import asyncio
from collections.abc import Mapping
from typing import IO

from tidemill.local.runtime.functions import Function
from tidemill.local.runtime.pool import Pool


class Runtime:
    """One pool per function.

    settings: the `TIDEMILL_…` variables that the functions get. log: where their output goes (None = where ours goes).
    """

    def __init__(self, functions: Mapping[str, Function], settings: Mapping[str, str], log: IO[bytes] | int | None = None) -> None:
        self._pools = {name: Pool(function, settings, log) for name, function in functions.items()}

    @property
    def pids(self) -> list[int]:
        """Every process that runs now."""
        return [pid for pool in self._pools.values() for pid in pool.pids]

    async def warm(self, *names: str) -> None:
        """Begin the processes that stay warm, of these functions or of all. FunctionCrashed if a handler does not load."""
        await asyncio.gather(*(self._pools[name].warm() for name in names or self._pools))

    async def invoke(self, function: str, event: bytes, *, waits: bool = False) -> bytes:
        """The answer of this function; Unavailable or InvocationFailed. `waits`: see Pool.invoke."""
        return await self._pools[function].invoke(event, waits=waits)

    async def close(self) -> None:
        """End every process at once."""
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))
