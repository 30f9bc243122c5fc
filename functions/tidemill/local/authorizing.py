"""Who is calling, as the authorizer function says: its answer is kept for a minute per `Authorization` header, like the gateway's."""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from tidemill.domain.errors import TidemillError, Unavailable
from tidemill.local.gateway_events import to_authorizer_event

KEPT_S: Final = 60.0
KEPT_ANSWERS: Final = 1_024
_NOBODY: Final = {"fault": "unauthenticated"}
_LASTING: Final = ("", "unauthenticated")
"""Faults that say something about the key. Any other (the database is away) says something about the moment."""

Context = Mapping[str, Any]
Ask = Callable[[bytes], Awaitable[bytes]]


class Authorizing:
    """Asks through `ask` (event in, answer out), once per header at a time."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._kept: OrderedDict[str, tuple[float, Context]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[Context]] = {}

    async def context(self, event: Mapping[str, Any]) -> Context:
        """The context that goes into the event. A request without the header is nobody's; nobody is asked about it.

        Unavailable when the authorizer cannot say.
        """
        header = event["headers"].get("authorization", "")
        if not header:
            return _NOBODY
        now = asyncio.get_running_loop().time()
        kept = self._kept.get(header)
        if kept is not None and now - kept[0] < KEPT_S:
            self._kept.move_to_end(header)
            return kept[1]
        task = self._asking.get(header)
        if task is None:
            task = self._asking[header] = asyncio.create_task(self._find_out(header, event))
            task.add_done_callback(lambda _: self._asking.pop(header, None))
        return await asyncio.shield(task)

    def forget(self) -> None:
        """Ask again from now on."""
        self._kept.clear()

    async def _find_out(self, header: str, event: Mapping[str, Any]) -> Context:
        raw = await self._ask(json.dumps(to_authorizer_event(event, header), ensure_ascii=False).encode())
        try:
            answer = json.loads(raw)
            context: Context = answer["context"] if answer["isAuthorized"] else _NOBODY
            fault = context["fault"]
        except (ValueError, KeyError, TypeError):
            raise Unavailable("nobody can say at the moment who is calling: try again", retry_after_secs=1) from None
        if fault in _LASTING:
            self._kept[header] = (asyncio.get_running_loop().time(), context)
            self._kept.move_to_end(header)
            while len(self._kept) > KEPT_ANSWERS:
                self._kept.popitem(last=False)
        return context


def as_unavailable(error: TidemillError) -> Unavailable:
    """What the caller hears when the authorizer itself failed: nothing was begun, so a repeat is safe."""
    if isinstance(error, Unavailable):
        return error
    return Unavailable("nobody can say at the moment who is calling: try again", retry_after_secs=1)
