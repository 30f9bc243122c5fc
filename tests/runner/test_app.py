"""The registry: names, defaults, and what is wrapped around enqueue and execute."""

from typing import Any

import pytest

from tidemill import App
from tidemill.domain.errors import OutOfRange
from tidemill.runner import AsyncContext, Context
from tidemill.runner.app import AppInvalid


def test_a_name_is_registered_once_and_both_places_are_told() -> None:
    app = App()

    @app.job("email.send")
    def send(ctx: Context, payload: Any) -> None: ...

    with pytest.raises(AppInvalid, match=r"'email.send' is registered twice: by .*send and by .*again"):

        @app.job("email.send")
        def again(ctx: Context, payload: Any) -> None: ...

    assert app.jobs["email.send"].handler is send


def test_a_registered_function_stays_the_function_it_was() -> None:
    app = App()

    @app.job("add")
    def add(ctx: Context | None, payload: Any) -> int:
        return int(payload) + 1

    assert add(None, 2) == 3


def test_a_coroutine_is_isolated_by_the_event_loop_unless_said_otherwise() -> None:
    app = App()

    @app.job("a")
    async def a(ctx: AsyncContext, payload: Any) -> None: ...

    @app.job("b")
    def b(ctx: Context, payload: Any) -> None: ...

    @app.job("c", isolation="process")
    async def c(ctx: Context, payload: Any) -> None: ...

    assert {name: kind.isolation for name, kind in app.jobs.items()} == {"a": "async", "b": "thread", "c": "process"}


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ({"name": "no spaces"}, AppInvalid, "1 to 200 characters"),
        ({"name": ""}, AppInvalid, "1 to 200 characters"),
        ({"name": "x", "isolation": "fibre"}, AppInvalid, "none of thread, async, process"),
        ({"name": "x", "isolation": "async"}, AppInvalid, "needs an `async def`"),
        ({"name": "x", "timeout_ms": 0}, OutOfRange, "outside 1 to"),
    ],
)
def test_a_registration_that_cannot_stand_is_refused(how: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        App().job(**how)(lambda ctx, payload: None)


def test_job_objects_carry_the_registered_defaults_and_fields_win() -> None:
    app = App()
    app.job("a", queue="slow", retry=3, unique=True, concurrency=2, timeout_ms=50, tags=["x"])(lambda ctx, payload: None)
    app.job("b", retry={"strategy": "fixed"}, unique={"by": ["k"]}, concurrency={"limit": 1, "key": "z"})(lambda ctx, payload: None)
    app.job("c", retry="gently")(lambda ctx, payload: None)
    assert app.job_object("a", {"k": 1}, priority=7, queue=None, max_attempts=9) == {
        "job_type": "a", "payload": {"k": 1}, "max_attempts": 9, "unique": {}, "concurrency": {"limit": 2}, "timeout_ms": 50,
        "tags": ["x"], "priority": 7,
    }  # fmt: skip
    assert app.job_object("b") == {
        "job_type": "b", "payload": {}, "retry_policy": {"strategy": "fixed"}, "unique": {"by": ["k"]},
        "concurrency": {"limit": 1, "key": "z"},
    }  # fmt: skip
    assert app.job_object("c", 5) == {"job_type": "c", "payload": 5, "retry_policy": "gently"}
    assert app.job_object("elsewhere", [], queue="q") == {"job_type": "elsewhere", "payload": [], "queue": "q"}


def test_enqueue_interceptors_wrap_from_the_outside_in() -> None:
    app, order = App(), []

    @app.intercept_enqueue
    def outer(job: dict[str, Any], proceed: Any) -> Any:
        order.append("outer")
        return proceed({**job, "headers": {"a": "1"}})

    @app.intercept_enqueue
    def inner(job: dict[str, Any], proceed: Any) -> Any:
        order.append("inner")
        return [proceed(job)]

    sent: list[dict[str, Any]] = []
    assert app.enqueue(lambda job: sent.append(job) or "id", "t", {"x": 1}) == ["id"]
    assert order == ["outer", "inner"]
    assert sent == [{"job_type": "t", "payload": {"x": 1}, "headers": {"a": "1"}}]


def test_an_enqueue_interceptor_may_answer_itself() -> None:
    app = App()
    app.intercept_enqueue(lambda job, proceed: "not now")
    assert app.enqueue(lambda job: "id", "t") == "not now"
