"""What a handler reads of the jobs that its own depended on."""

from __future__ import annotations

from typing import Any

from harness.mill import Mill
from harness.working import eventually, working
from tidemill.runner import App


def family(mill: Mill, child: str) -> tuple[list[str], str]:
    parents = [mill.new(job_type="parent", payload={"n": n}) for n in range(3)]
    return parents, mill.new(job_type=child, depends_on=parents, on_parent_failure="run")


def app_of(asked: list[Any]) -> App:
    app = App()

    @app.job("parent")
    def parent(ctx: Any, payload: Any) -> Any:
        if payload["n"] == 2:
            raise ValueError("no result")
        return {"n": payload["n"]} if payload["n"] else None

    @app.job("child")
    def child(ctx: Any, payload: Any) -> Any:
        asked.append(ctx.parents is ctx.parents)
        return [[p.id, p.state, p.result] for p in ctx.parents.values()]

    @app.job("async_child")
    async def async_child(ctx: Any, payload: Any) -> Any:
        found = await ctx.parents
        return [[p.id, p.state, p.result] for p in (await ctx.parents).values() if found[p.id] is p]

    return app


def expected(parents: list[str]) -> list[list[Any]]:
    return [[parents[0], "completed", None], [parents[1], "completed", {"n": 1}], [parents[2], "dead_letter", None]]


def test_a_child_reads_its_parents_in_threads_and_coroutines(mill: Mill) -> None:
    asked: list[Any] = []
    families = {child: family(mill, child) for child in ("child", "async_child")}
    mill.conn.execute("update tidemill.jobs set max_attempts_override = 1")
    with working(mill, app_of(asked), concurrency=4):
        eventually(lambda: all(mill.state(child) == "completed" for _, child in families.values()))
    for parents, child in families.values():
        assert mill.executions(child)[0]["result"] == expected(parents)
    assert asked == [True]


def test_a_job_without_parents_reads_none(mill: Mill) -> None:
    job_id = mill.new(job_type="child")
    with working(mill, app_of([])):
        eventually(lambda: mill.state(job_id) == "completed")
    assert mill.executions(job_id)[0]["result"] == []
