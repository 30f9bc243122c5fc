"""Lambda on EventBridge, and behind POST /v1/tick: scheduler passes. Also asked by the courier for calls of webhooks.

Loads neither pydantic nor a router.
"""

from typing import Any

from aws_lambda_powertools import Logger

from tidemill.http.dispatch import Dispatcher

logger = Logger(service="scheduler")
dispatcher = Dispatcher(log=logger)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """To EventBridge: what the phases of its passes did. To a gateway: its response. To the courier: the calls to make."""
    # What a call needs is loaded by the first that needs it: nobody waits for a pass, and most environments see only passes.
    if "requestContext" in event:
        from tidemill.http import routes
        from tidemill.http.request import Request

        request = Request.of(event, context)
        return dispatcher.run(request, routes.at(request.path).get(request.method), {})
    if "courier" in event:
        from tidemill.http import couriers

        return couriers.served(dispatcher.database, event["courier"])
    from tidemill.http.ticks import RESERVE_MS, passed

    budget_ms = min(dispatcher.settings.tick_budget_ms, context.get_remaining_time_in_millis() - RESERVE_MS)
    report = passed(dispatcher.database, budget_ms, dispatcher.settings.stage)
    logger.info("tick", extra={**report, "request_id": getattr(context, "aws_request_id", "")})
    return report
