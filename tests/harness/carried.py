"""An httpx transport that carries requests to the handlers of a test's gateway, in this process."""

from __future__ import annotations

from urllib.parse import parse_qs

import httpx

from api.gateway import Gateway, event_v2


class Carried(httpx.BaseTransport):
    """Every request goes to the gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = request.read().decode() or None
        path = request.url.raw_path.decode().partition("?")[0]
        query = parse_qs(request.url.query.decode(), keep_blank_values=True)
        reply = self.gateway.send(event_v2(request.method, path, body=body, headers=dict(request.headers), query=query))
        return httpx.Response(reply.status, headers=dict(reply.headers), text=reply.text)
