"""Every line that a handler's loggers write names its job, its attempt and its trace: in a thread, on the loop, in a process of its own."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from harness.mill import Mill
from harness.working import WorkerProcess, eventually, working
from tidemill import App
from tidemill.observe.correlation import FIELDS, RUNNING, JsonLines, about
from tidemill.runner import Context, JobFields

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
KINDS = {"talk": 1, "talk.async": 2, "talk.process": 1}


@pytest.fixture
def heard() -> Iterator[io.StringIO]:
    """What a logger with a handler of the program's own writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.addFilter(JobFields())
    logger = logging.getLogger("mine")
    logger.addHandler(handler)
    logger.setLevel("INFO")
    yield stream
    logger.removeHandler(handler)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_handlers_lines_name_their_attempt_in_every_isolation(mill: Mill) -> None:
    ids = {mill.new(job_type=kind, traceparent=PARENT): kind for kind in KINDS}
    with WorkerProcess(mill) as process:
        for kind, job_id in ((kind, job_id) for job_id, kind in ids.items()):
            eventually(lambda job_id=job_id: mill.state(job_id) == "completed")
            eventually(lambda job_id=job_id, kind=kind: sum(e.get("job_id") == job_id for e in process.events) >= KINDS[kind])
        spoken = [event for event in process.events if event.get("logger") == "harness.talk"]
    named = [{name: line.get(name) for name in FIELDS} for line in spoken]
    assert {(line["event"], line["level"], line["n"]) for line in spoken} == {("hello there", "info", 1)}
    assert sorted(line["job_type"] for line in named) == ["talk", "talk.async", "talk.async", "talk.process"]
    for line in named:
        assert ids[line["job_id"]] == line["job_type"]
        assert (line["queue"], line["attempt"], line["trace_id"], line["span_id"]) == ("default", 1, TRACE, SPAN)


def test_lines_outside_of_a_job_name_none(mill: Mill, heard: io.StringIO) -> None:
    app = App()

    @app.job("t")
    def talks(ctx: Context, payload: Any) -> None:
        logging.getLogger("mine").info("within", extra={"queue": "my own"})

    with working(mill, app, concurrency=1):
        job_id = mill.new()
        eventually(lambda: mill.state(job_id) == "completed")
        logging.getLogger("mine").info("without")
    within, without = lines(heard)
    assert (within["job_id"], within["queue"], "trace_id" in within) == (job_id, "my own", False)
    assert not set(FIELDS) & set(without)
    assert RUNNING.get() is None


def test_the_next_job_of_a_thread_has_a_name_of_its_own_though_the_last_one_failed(mill: Mill, heard: io.StringIO) -> None:
    app = App()

    @app.job("t")
    def fails(ctx: Context, payload: Any) -> None:
        try:
            raise ValueError("no")
        except ValueError:
            logging.getLogger("mine").exception("caught")
            raise

    with working(mill, app, concurrency=1):
        ids = [mill.new(max_attempts=1) for _ in range(3)]
        eventually(lambda: all(mill.state(one) == "dead_letter" for one in ids))
    assert sorted(line["job_id"] for line in lines(heard)) == sorted(ids)
    assert all("ValueError: no" in line["stack"] for line in lines(heard))


def test_the_workers_own_lines_about_a_job_carry_its_trace(mill: Mill) -> None:
    app = App()
    app.job("t")(lambda ctx, payload: None)
    with working(mill, app) as worker:
        job_id = mill.new(job_type="unheard.of", traceparent=PARENT)
        eventually(lambda: mill.state(job_id) == "dead_letter")
        [line] = worker.lines.named("unknown_job_type")
    assert (line["job_id"], line["queue"], line["attempt"], line["trace_id"]) == (job_id, "default", 1, TRACE)


@pytest.mark.parametrize("text", [None, "", "00-short-x-01", "nonsense", "00-" + "a" * 33 + "-" + SPAN + "-01"])
def test_what_is_no_trace_is_left_out(mill: Mill, text: str | None) -> None:
    mill.new()
    job = mill.claim()[0]._replace(traceparent=text)
    assert "trace_id" not in about(job)
