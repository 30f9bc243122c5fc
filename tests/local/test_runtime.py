"""Functions in real awslambdaric processes: what an invocation gets, and what becomes of one that goes wrong."""

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.clock import allowed
from harness.dev import environment, has_ended, until
from tidemill.domain.errors import Unavailable
from tidemill.local.runtime import pool as pools
from tidemill.local.runtime.functions import ROOT, Function, functions
from tidemill.local.runtime.pool import Pool
from tidemill.local.runtime.process import FunctionCrashed, FunctionFailed, FunctionTimedOut

HANDLERS = Path(__file__).with_name("handlers")
PROBE = Function(name="probe", handler="probe.handler", max_processes=4, timeout_s=20)
PATHS = {"PYTHONPATH": f"{ROOT}{os.pathsep}{HANDLERS}"}
SHORT, LONG = {}, {"sleep_s": 0.3}


def using(work: Callable[[Pool], Awaitable[Any]], log: Path | None = None, **changes: Any) -> Any:
    """What `work` makes of a pool; afterwards no process of the pool is left."""

    async def run() -> Any:
        with (log or Path(os.devnull)).open("wb") as sink:
            pool = Pool(dataclasses.replace(PROBE, **changes), PATHS, sink)
            try:
                return await work(pool)
            finally:
                pids = pool.pids
                await pool.close()
                assert all(map(has_ended, pids))

    return asyncio.run(run())


async def ask(pool: Pool, event: Any = SHORT, **arguments: Any) -> Any:
    return json.loads(await pool.invoke(json.dumps(event).encode(), **arguments))


def test_a_warm_invocation_takes_about_a_millisecond() -> None:
    async def work(pool: Pool) -> float:
        await pool.warm()
        took = []
        for _ in range(200):
            began = time.perf_counter()
            await pool.invoke(b"{}")
            took.append(time.perf_counter() - began)
        return sorted(took)[100] * 1000

    p50_ms = using(work)
    print(f"warm invocation p50: {p50_ms:.2f} ms")
    assert p50_ms < min(allowed(10), 35)  # 0.4 ms on an idle machine; the bound catches Nagle's 40


def test_one_process_serves_one_call_after_the_other() -> None:
    async def work(pool: Pool) -> set[int]:
        return {(await ask(pool))["pid"] for _ in range(10)}

    assert len(using(work)) == 1


def test_megabytes_travel_both_ways() -> None:
    answer = using(lambda pool: ask(pool, {"text": "é" * 2_000_000, "answers": 4_000_000}))
    assert (answer["size"], len(answer["text"])) == (2_000_000, 4_000_000)


def test_an_answer_over_six_megabytes_fails_and_the_process_lives_on() -> None:
    async def work(pool: Pool) -> bool:
        first = (await ask(pool))["pid"]
        with pytest.raises(FunctionFailed, match=r"ResponseSizeTooLarge"):
            await ask(pool, {"answers": 7_000_000})
        return first == (await ask(pool))["pid"]

    assert using(work)


def test_a_raised_error_fails_that_call_alone_and_its_text_stays_in_the_log(tmp_path: Path) -> None:
    async def work(pool: Pool) -> bool:
        first = (await ask(pool))["pid"]
        with pytest.raises(FunctionFailed, match="raised ValueError") as raised:
            await ask(pool, {"raises": True})
        assert "secret" not in str(raised.value)
        return first == (await ask(pool))["pid"]

    assert using(work, log=tmp_path / "log")
    assert "a secret of the function's own" in (tmp_path / "log").read_text()


def test_a_process_that_dies_fails_its_call_and_is_replaced() -> None:
    async def work(pool: Pool) -> tuple[int, int]:
        first = (await ask(pool))["pid"]
        with pytest.raises(FunctionCrashed, match="ended with 3"):
            await ask(pool, {"dies": True})
        return first, (await ask(pool))["pid"]

    first, second = using(work)
    assert first != second


def test_an_idle_process_that_was_killed_is_replaced_without_a_failed_call() -> None:
    async def work(pool: Pool) -> tuple[int, int]:
        first = (await ask(pool))["pid"]
        os.kill(first, signal.SIGKILL)
        until(lambda: has_ended(first))  # and the event loop has no chance to notice
        return first, (await ask(pool))["pid"]

    first, second = using(work)
    assert first != second


def test_a_process_that_is_killed_while_it_begins_is_replaced_without_a_failed_call() -> None:
    async def work(pool: Pool) -> tuple[int, int]:
        call = asyncio.ensure_future(ask(pool))
        while not pool.pids:  # noqa: ASYNC110 - the pool tells nobody when a process begins
            await asyncio.sleep(0)
        killed = pool.pids[0]
        os.kill(killed, signal.SIGKILL)
        return killed, (await call)["pid"]

    first, second = using(work)
    assert first != second


def test_a_call_over_its_time_is_ended_with_its_process() -> None:
    async def work(pool: Pool) -> tuple[int, int]:
        first = (await ask(pool))["pid"]
        began = time.monotonic()
        with pytest.raises(FunctionTimedOut, match=r"longer than 0\.5 s"):
            await ask(pool, {"sleep_s": 30})
        assert time.monotonic() - began < 25
        until(lambda: has_ended(first))
        return first, (await ask(pool))["pid"]

    first, second = using(work, timeout_s=0.5)
    assert first != second


def test_a_handler_that_cannot_be_loaded_says_so_at_once() -> None:
    with pytest.raises(FunctionCrashed, match=r"no_such_module\.handler cannot be loaded"):
        using(ask, handler="no_such_module.handler")


def test_the_handler_sees_a_deadline_an_arn_and_its_code_folder() -> None:
    seen = using(lambda pool: ask(pool, {"context": True}), timeout_s=20)
    assert 15_000 < seen["remaining_ms"] <= 20_000
    assert seen["arn"] == "arn:aws:lambda:local:000000000000:function:tidemill-probe"
    assert seen["cwd"] == str(ROOT)


def test_the_process_sees_what_a_lambda_sees_and_our_settings_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "ours alone")
    monkeypatch.setenv("TIDEMILL_API_KEY", "not for functions")
    seen = using(lambda pool: ask(pool, {"environment": True}))
    ours = {name for name in seen if not name.startswith(("AWS_", "LAMBDA_", "_"))}
    assert "AWS_SECRET_ACCESS_KEY" not in seen
    assert ours <= {"PATH", "LANG", "TZ", "PYTHONPATH", "PYTHONUTF8", "LC_CTYPE"}
    assert seen["TZ"] == ":UTC"


def test_a_pool_grows_to_its_bound_and_no_further() -> None:
    async def work(pool: Pool) -> tuple[int, int]:
        answers = await asyncio.gather(*(ask(pool, LONG) for _ in range(12)))
        return len({answer["pid"] for answer in answers}), len(pool.pids)

    used, running = using(work, max_processes=3)
    assert 2 <= used <= 3
    assert running <= 3


def test_a_pool_shrinks_to_what_stays_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "IDLE_S", 0.2)

    async def work(pool: Pool) -> int:
        await asyncio.gather(*(ask(pool, LONG) for _ in range(12)))
        assert len(pool.pids) > 1
        pids = pool.pids
        await asyncio.to_thread(until, lambda: sum(map(has_ended, pids)) == len(pids) - 1)
        return len(pool.pids)

    assert using(work) == 1


def test_calls_that_wait_for_jobs_leave_processes_to_the_others() -> None:
    async def work(pool: Pool) -> float:
        long = [asyncio.create_task(ask(pool, {"sleep_s": 3}, waits=True)) for _ in range(8)]
        await ask(pool)  # there is a process for it, whatever the others hold
        began = time.perf_counter()
        for _ in range(20):
            await ask(pool)
        took = time.perf_counter() - began
        assert not all(task.done() for task in long)
        for task in long:
            task.cancel()
        await asyncio.gather(*long, return_exceptions=True)
        return took

    assert using(work, max_processes=4, kept_short=2) < allowed(2)


def test_a_call_that_finds_no_process_in_time_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "WAIT_S", 0.2)

    async def work(pool: Pool) -> Unavailable:
        await pool.warm()
        busy = asyncio.create_task(ask(pool, {"sleep_s": 2}))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable) as told:
            await ask(pool)
        await busy
        return told.value

    assert using(work, max_processes=1).retry_after_secs == 1


def test_more_waiting_calls_than_the_bound_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "WAITING_CALLS", 3)

    async def work(pool: Pool) -> list[Any]:
        await pool.warm()
        return await asyncio.gather(*(ask(pool, LONG) for _ in range(8)), return_exceptions=True)

    answers = using(work, max_processes=1)
    assert sum(isinstance(answer, Unavailable) for answer in answers) == 4


def test_closing_ends_what_runs_and_tells_who_waits() -> None:
    async def work(pool: Pool) -> list[Any]:
        await pool.warm()
        calls = [asyncio.create_task(ask(pool, {"sleep_s": 30})) for _ in range(3)]
        await asyncio.sleep(0.05)
        await pool.close()
        return await asyncio.gather(*calls, return_exceptions=True)

    assert [type(answer) for answer in using(work, max_processes=1)] == [Unavailable, Unavailable, Unavailable]


OWNER = """
import asyncio, os, sys
from tidemill.local.runtime.functions import Function
from tidemill.local.runtime.pool import Pool
async def main():
    pool = Pool(Function(name="probe", handler="probe.handler"), {"PYTHONPATH": sys.argv[1]}, asyncio.subprocess.DEVNULL)
    await pool.warm()
    if sys.argv[2] == "busy":
        asyncio.create_task(pool.invoke(b'{"sleep_s": 60}'))
        await asyncio.sleep(0.1)
    print(pool.pids[0], flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.parametrize("doing", ["idle", "busy"])
def test_a_process_ends_when_its_owner_is_killed(doing: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, PATHS["PYTHONPATH"], doing], env=environment(), stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        child = psutil.Process(int(owner.stdout.readline()))
        owner.kill()
    psutil.wait_procs([child], timeout=20)
    assert not child.is_running()


def test_the_functions_and_their_bounds_fit_the_database() -> None:
    """One connection per process: all of them together, a worker's few and the operator's psql are under what the server takes."""
    from tidemill.local.postgres import _DEFAULTS

    assert sum(function.max_processes for function in functions().values()) + 20 <= int(_DEFAULTS["max_connections"])
