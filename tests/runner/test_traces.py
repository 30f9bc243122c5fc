"""A trace goes from the enqueue through the attempt to the child jobs, as W3C trace context and as OpenTelemetry spans."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once

from harness.mill import Mill
from harness.working import eventually, working
from tidemill import App, Client
from tidemill.observe import traces
from tidemill.runner import Context, JobFields

SPANS = InMemorySpanExporter()
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE_ID = int("0af7651916cd43dd8448eb211c80319c", 16)


@pytest.fixture(scope="module", autouse=True)
def provider() -> Iterator[None]:
    """For this module alone: the tests after it run untraced."""
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(SPANS))
    trace.set_tracer_provider(made)
    yield
    trace._TRACER_PROVIDER = None
    trace._TRACER_PROVIDER_SET_ONCE = Once()


@pytest.fixture
def spans() -> InMemorySpanExporter:
    SPANS.clear()
    return SPANS


def traced(mill: Mill, job_id: str) -> tuple[str | None, str | None]:
    view = mill.view(job_id)
    return view["traceparent"], view["tracestate"]


@pytest.mark.parametrize("kind", ["thread", "async"])
def test_an_attempt_continues_the_jobs_trace_and_hands_it_to_children(mill: Mill, spans: InMemorySpanExporter, kind: str) -> None:
    app, made = App(), []

    if kind == "async":

        @app.job("t", isolation="async")
        async def parent(ctx: Any, payload: Any) -> None:
            made.append(await ctx.enqueue("child", tags=["x"]))
    else:

        @app.job("t")
        def parent_here(ctx: Context, payload: Any) -> None:
            made.append(ctx.enqueue("child", tags=["x"]))

    app.job("child")(lambda ctx, payload: None)
    with working(mill, app):
        job_id = mill.new(traceparent=PARENT, tracestate="vendor=1")
        eventually(lambda: made and mill.state(made[0]) == "completed")
        eventually(lambda: len(spans.get_finished_spans()) == 2)
    second, first = sorted(spans.get_finished_spans(), key=lambda span: span.name)
    assert (first.name, second.name) == ("process t", "process child")
    assert first.context.trace_id == second.context.trace_id == TRACE_ID
    assert first.parent is not None
    assert first.parent.span_id == int("b7ad6b7169203331", 16)
    assert second.parent is not None
    assert second.parent.span_id == first.context.span_id
    assert first.kind is trace.SpanKind.CONSUMER
    assert (
        dict(first.attributes or {}).items()
        >= {"messaging.message.id": job_id, "messaging.destination.name": "default", "tidemill.attempt": 1}.items()
    )
    assert traced(mill, made[0]) == (f"00-{TRACE_ID:032x}-{first.context.span_id:016x}-01", "vendor=1")


def test_a_log_line_names_the_attempts_own_span(mill: Mill, spans: InMemorySpanExporter) -> None:
    app, seen = App(), []

    @app.job("t")
    def talks(ctx: Context, payload: Any) -> None:
        record = logging.LogRecord("mine", 20, "", 0, "hello", (), None)
        JobFields().filter(record)
        seen.append((record.trace_id, record.span_id))

    with working(mill, app):
        mill.new(traceparent=PARENT)
        eventually(spans.get_finished_spans)
    [span] = spans.get_finished_spans()
    assert seen == [(f"{TRACE_ID:032x}", f"{span.context.span_id:016x}")]


def test_a_failed_attempts_span_says_the_errors_class_and_nothing_of_its_text(mill: Mill, spans: InMemorySpanExporter) -> None:
    app = App()

    @app.job("t", retry={"max_attempts": 1})
    def fails(ctx: Context, payload: Any) -> None:
        raise ValueError("the secret of " + str(payload))

    with working(mill, app):
        mill.new(payload="hunter2", max_attempts=1)
        eventually(spans.get_finished_spans)
    [span] = spans.get_finished_spans()
    assert span.status.status_code is trace.StatusCode.ERROR
    assert dict(span.attributes or {})["error.type"] == "ValueError"
    assert "hunter2" not in span.to_json()


def test_a_job_without_a_trace_begins_one(mill: Mill, spans: InMemorySpanExporter) -> None:
    app = App()
    app.job("t")(lambda ctx, payload: None)
    with working(mill, app):
        mill.new()
        eventually(spans.get_finished_spans)
    assert spans.get_finished_spans()[0].parent is None


def test_the_clients_enqueue_is_a_span_whose_trace_the_job_carries(spans: InMemorySpanExporter) -> None:
    sent: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(200, json={"results": [], "created": 0, "deduplicated": 0, "failed": 0})

    with Client("http://127.0.0.1:1", "tm_test_x_y", transport=httpx.MockTransport(answer)) as client:
        with trace.get_tracer("test").start_as_current_span("web request") as outer:
            client.enqueue_many([{"job_type": "a"}, {"job_type": "b", "traceparent": PARENT}])
        client.enqueue_many([{"job_type": "a"}])
    inner, _, alone = spans.get_finished_spans()
    assert (inner.name, inner.kind, alone.name) == ("enqueue", trace.SpanKind.PRODUCER, "enqueue a")
    assert inner.parent is not None
    assert inner.parent.span_id == outer.get_span_context().span_id
    mine, given = (job["traceparent"] for job in sent[0]["jobs"])
    assert mine.startswith(f"00-{inner.context.trace_id:032x}-{inner.context.span_id:016x}-")
    assert given == PARENT


def test_a_program_without_opentelemetry_loads_nothing_of_it() -> None:
    code = """
import sys, tidemill
from tidemill.client.api import Client
from tidemill.observe import traces
from tidemill.runner.app import App
assert App().job_object("t", {"n": 1}) == {"job_type": "t", "payload": {"n": 1}} and not traces.is_on()
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_injecting_outside_any_span_changes_nothing() -> None:
    job = {"job_type": "t"}
    traces.inject(job)
    assert job == {"job_type": "t"}


def test_an_idempotency_key_answers_the_same_request_from_another_trace(mill: Mill) -> None:
    first = mill.put(idempotency_key="k", traceparent=PARENT, tracestate="a=1")
    again = mill.put(idempotency_key="k", traceparent=PARENT.replace("0af7", "1111"))
    assert (again.job_id, again.deduplicated) == (first.job_id, True)


def test_log_lines_name_their_attempt_by_its_fence_and_never_its_lease(mill: Mill) -> None:
    app = App()

    @app.job("t")
    def talks(ctx: Context, payload: Any) -> None:
        ctx.log.info("hello")

    with working(mill, app):
        job_id = mill.new()
        eventually(lambda: mill.state(job_id) == "completed")
    [line] = mill.store.log_lines(job_id, after=0, levels=["info"], limit=10)
    assert line["fence"] == 1
    assert mill.executions(job_id)[0]["id"] not in str(line)
