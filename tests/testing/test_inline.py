"""Inline mode for users' own tests."""

from typing import Any

import pytest

from tidemill.domain.errors import NotFound
from tidemill.runner import App, AsyncContext, Cancelled, Context
from tidemill.runner.context import JobLog
from tidemill.testing import run_inline
from tidemill.testing.context import InlineAsyncContext, InlineContext, InlineLog


@pytest.fixture
def app() -> App:
    made = App()

    @made.job("order.ship", queue="mail")
    def ship(ctx: Any, payload: Any) -> Any:
        ctx.log.info("shipping", order=payload["order"])
        ctx.progress(1, 2, "half")
        ctx.output({"so": ("far",)})
        ctx.save_checkpoint({"at": (ctx.checkpoint or {}).get("at", 0) + 1})
        ctx.raise_if_cancelled()
        ctx.enqueue("order.tell", {"order": payload["order"]})
        return {"queue": ctx.queue, "attempt": ctx.attempt, "items": (1, 2)}

    @made.job("order.tell")
    async def tell(ctx: Any, payload: Any) -> Any:
        await ctx.progress(1)
        ctx.output("told")
        return payload["order"]

    @made.job("for.ever")
    def for_ever(ctx: Any, payload: Any) -> None:
        ctx.enqueue("for.ever")

    @made.job("bad")
    def bad(ctx: Any, payload: Any) -> Any:
        return object()

    return made


def test_job_and_its_children_run_and_are_told(app: App) -> None:
    shipped, told = run_inline(app, [app.job_object("order.ship", {"order": 7})], checkpoint={"at": 4})
    assert shipped.raise_error().result == {"queue": "mail", "attempt": 1, "items": [1, 2]}
    assert shipped.log == [("info", 'shipping {"order":7}')]
    assert (shipped.progress, shipped.output, shipped.checkpoint) == ((1, 2, "half"), {"so": ["far"]}, {"at": 5})
    assert shipped.enqueued == [{"job_type": "order.tell", "payload": {"order": 7}}]
    assert (told.result, told.progress, told.output) == (7, (1, None, None), "told")


def test_what_a_handler_raises_is_kept(app: App) -> None:
    [ran] = run_inline(app, [{"job_type": "order.ship", "payload": {"order": 7}}], is_cancelled=True)
    assert isinstance(ran.error, Cancelled)
    with pytest.raises(Cancelled):
        ran.raise_error()


def test_result_that_is_no_json_fails_as_in_production(app: App) -> None:
    [ran] = run_inline(app, [{"job_type": "bad"}])
    assert isinstance(ran.error, TypeError)


def test_job_type_without_a_handler_is_said(app: App) -> None:
    with pytest.raises(NotFound, match=r"nobody\.knows"):
        run_inline(app, [{"job_type": "nobody.knows"}])


def test_endless_children_end(app: App) -> None:
    with pytest.raises(RuntimeError, match="more than 20 jobs"):
        run_inline(app, [{"job_type": "for.ever"}], depth=20)


def test_interceptors_are_part_of_it(app: App) -> None:
    seen = []

    @app.intercept_execute
    def note(ctx: Any, payload: Any, proceed: Any) -> Any:
        seen.append(ctx.job_type)
        return proceed(ctx, payload)

    @app.intercept_enqueue
    def tag(job: Any, proceed: Any) -> Any:
        return proceed(job | {"tags": ["inline"]})

    shipped, _ = run_inline(app, [{"job_type": "order.ship", "payload": {"order": 7}}])
    assert seen == ["order.ship", "order.tell"]
    assert shipped.enqueued[0]["tags"] == ["inline"]


@pytest.mark.parametrize(("real", "inline"), [(Context, InlineContext), (AsyncContext, InlineAsyncContext), (JobLog, InlineLog)])
def test_inline_context_has_every_name_of_the_real_one(app: App, real: type, inline: type) -> None:
    names = {name for name in dir(real) if not name.startswith("_")}
    made = set(dir(inline)) | {
        "app", "id", "job_type", "queue", "attempt", "max_attempts", "fence", "schema_version", "headers", "deadline", "cancelled", "log",
    }  # fmt: skip
    assert names <= made


def test_inline_child_reads_what_its_parents_returned() -> None:
    app = App()

    @app.job("parent")
    def parent(_: Context, payload: Any) -> Any:
        return payload["n"] * 2

    @app.job("child")
    def child(ctx: Context, _: Any) -> Any:
        return sum(p.result for p in ctx.parents.values())

    ran = run_inline(
        app,
        [
            {"job_type": "parent", "payload": {"n": 1}, "ref": "a"},
            {"job_type": "parent", "payload": {"n": 5}, "ref": "b"},
            {"job_type": "child", "depends_on": [{"ref": "a"}, {"ref": "b"}]},
        ],
    )
    assert ran[-1].raise_error().result == 12
