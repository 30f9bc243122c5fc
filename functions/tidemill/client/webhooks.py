"""The project's error webhook over the API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidemill.client.calls import Calls, Thing

PATH = "/v1/webhook"


class WebhookCalls(Calls):
    """Mixed into `Client`. Things come as the API's own JSON objects (docs/webhook.md)."""

    def get_webhook(self) -> Thing:
        """The webhook, without its secret. NotFound if there is none."""
        found: Thing = self._send("GET", PATH)
        return found

    def put_webhook(self, url: str, **fields: Any) -> Thing:
        """The webhook as it is now (`events`, `queues`, `is_paused`); a new one has its `secret`, here and nowhere else."""
        made: Thing = self._send("PUT", PATH, {"url": url, **fields}, repeatable=False)
        return made

    def rotate_webhook(self) -> Thing:
        """The webhook with a new `secret`; the old one signs beside it for a day."""
        made: Thing = self._send("POST", f"{PATH}/rotate", {}, repeatable=False)
        return made

    def test_webhook(self) -> Thing:
        """Asks for a test call: `asked_at`. The deliveries show how it went."""
        asked: Thing = self._send("POST", f"{PATH}/test", {}, repeatable=False)
        return asked

    def delete_webhook(self) -> None:
        """Removes it. NotFound if there is none."""
        self._send("DELETE", PATH)

    def list_deliveries(self) -> Iterator[Thing]:
        """Its calls of the last seven days, the newest first, page by page as they are asked for."""
        return self._pages(f"{PATH}/deliveries", {})
