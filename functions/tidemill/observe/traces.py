"""OpenTelemetry spans and W3C trace context, where the program itself has loaded the API (`opentelemetry.trace`) and set a provider.

Nothing here imports it: a program that has no use for traces pays a look into `sys.modules`, and one that has, has configured them.
Span and attribute names: OpenTelemetry's semantic conventions for messaging. No payload, no error's text.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

SCOPE: Final = "tidemill"
FIELDS: Final = ("traceparent", "tracestate")


def is_on() -> bool:
    """True if the program has loaded OpenTelemetry's API and given it a provider."""
    api = sys.modules.get("opentelemetry.trace")
    return api is not None and not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider)


def current() -> tuple[str, str] | None:
    """(trace id, span id) of the span that is open here; None if nothing is traced."""
    if not is_on():
        return None
    from opentelemetry import trace

    found = trace.get_current_span().get_span_context()
    return (f"{found.trace_id:032x}", f"{found.span_id:016x}") if found.is_valid else None


def inject(job: MutableMapping[str, Any]) -> None:
    """Gives a job object the current span's trace context, unless it has one of its own or nothing is traced."""
    if not is_on() or job.get("traceparent") is not None:
        return
    carrier: dict[str, str] = {}
    _context_format().inject(carrier)
    for name in FIELDS:
        if name in carrier:
            job[name] = carrier[name]


@contextmanager
def enqueuing(jobs: Sequence[MutableMapping[str, Any]]) -> Iterator[None]:
    """A producer's span around a call that creates `jobs`, whose trace context they get."""
    if not is_on() or not jobs:
        yield
        return
    from opentelemetry import trace

    types = {str(job.get("job_type")) for job in jobs}
    name = f"enqueue {types.pop()}" if len(types) == 1 else "enqueue"
    attributes: dict[str, str | int] = {
        "messaging.system": SCOPE,
        "messaging.operation.type": "send",
        "messaging.batch.message_count": len(jobs),
    }
    tracer = trace.get_tracer(SCOPE)
    with tracer.start_as_current_span(name, kind=trace.SpanKind.PRODUCER, attributes=attributes, record_exception=False) as span:
        for job in jobs:
            inject(job)
        try:
            yield
        except Exception as error:
            _failed(span, error)
            raise


def executed(run: Callable[[Any, Any], Any], ctx: Any, payload: Any) -> Any:
    """`run(ctx, payload)` within a consumer's span that continues the job's trace; a coroutine's span ends with it."""
    from opentelemetry import trace

    attributes = {
        "messaging.system": SCOPE,
        "messaging.operation.type": "process",
        "messaging.destination.name": ctx.queue,
        "messaging.message.id": ctx.id,
        "tidemill.job_type": ctx.job_type,
        "tidemill.attempt": ctx.attempt,
        "tidemill.fence": ctx.fence,
    }
    came_from = _context_format().extract({name: text for name, text in ctx.headers.items() if name in FIELDS})
    tracer = trace.get_tracer(SCOPE)
    span = tracer.start_span(f"process {ctx.job_type}", context=came_from, kind=trace.SpanKind.CONSUMER, attributes=attributes)
    try:
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            value = run(ctx, payload)
    except BaseException as error:
        _failed(span, error)
        span.end()
        raise
    if inspect.isawaitable(value):
        return _awaited(span, value)
    span.end()
    return value


async def _awaited(span: Any, value: Any) -> Any:
    from opentelemetry import trace

    try:
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            return await value
    except BaseException as error:
        _failed(span, error)
        raise
    finally:
        span.end()


def _failed(span: Any, error: BaseException) -> None:
    from opentelemetry import trace

    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(trace.StatusCode.ERROR)


def _context_format() -> Any:
    """W3C Trace Context alone, whatever else the program propagates: it is what a job has columns for."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()
