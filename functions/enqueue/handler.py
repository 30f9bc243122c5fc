"""Lambda: create jobs, and everything that reads them. Wires and returns; `tidemill.http.routes` says what it serves."""

from typing import Any

from tidemill.http.app import App

app = App("enqueue")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The gateway's response to its event."""
    return app(event, context)
