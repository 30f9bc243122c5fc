"""Lambda: everything an operator does and sees. Wires and returns; `tidemill.http.routes` says what it serves."""

from typing import Any

from tidemill.http.app import App

app = App("admin", is_eager=False)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The gateway's response to its event."""
    return app(event, context)
