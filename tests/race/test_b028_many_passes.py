"""B028: any number of passes at once, repeated ones, and passes that are killed: one job per schedule and instant."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from harness.mill import M, Mill, scaled
from harness.schedules import at, fire, occurrences, put, told
from tidemill.engine import schedules

ROOT = Path(__file__).resolve().parents[2]
NOW = at("2030-01-01 10:00")
BORN = NOW - 5 * M
ONE_JOB_EACH = "select count(*), count(distinct scheduled_job_id) from tidemill.jobs where scheduled_for = %s and phase <> 'cancelled'"

# A pass in a process of its own. Given a number n, it is killed in its nth transaction between making the jobs and moving the schedules on.
PASS = """
import os, signal, sys
from datetime import datetime
from tidemill.engine import fire
from tidemill.store.database import Database

fire.SCHEDULES = 3
deadly = int(sys.argv[3])

def run(store):
    advance, calls = store.advance_schedules, [0]
    def dying(moves):
        calls[0] += 1
        if calls[0] == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        advance(moves)
    store.advance_schedules = dying
    firing = fire.Firing(store, roll=lambda: 0.5, now=datetime.fromisoformat(sys.argv[2]))
    while firing.step()["more"]:
        pass

Database(sys.argv[1]).run(run)
"""


def begin(mill: Mill, deadly: int) -> subprocess.Popen[bytes]:
    environment = {"PYTHONPATH": str(ROOT / "functions"), "PATH": os.environ["PATH"]}
    return subprocess.Popen([sys.executable, "-c", PASS, mill.dsn, NOW.isoformat(), str(deadly)], env=environment)


def twenty(mill: Mill) -> list[str]:
    names = [f"s{n:02}" for n in range(20)]
    for name in names:
        put(mill, name, BORN, cron="0 10 * * *", job={"job_type": "same"})
    return names


def made(mill: Mill) -> tuple[int, int]:
    row = mill.conn.execute(ONE_JOB_EACH, [NOW]).fetchone()
    assert row is not None
    return row[0], row[1]


def test_b028_ten_passes_at_once_and_three_more_fire_each_schedule_once(mill: Mill) -> None:
    names = twenty(mill)
    others = [mill.another() for _ in range(10)]
    gate = threading.Barrier(10)

    def pass_over(one: Mill) -> dict[str, int]:
        gate.wait(timeout=120)
        return fire(one, NOW)

    with ThreadPoolExecutor(10) as pool:
        counts = list(pool.map(pass_over, others))
    counts += [fire(mill, NOW) for _ in range(3)]
    assert sum(c["fired"] for c in counts) == 20
    assert sum(c["broken"] + c["skipped"] for c in counts) == 0
    assert made(mill) == (20, 20)
    assert all(told(mill, name) == [("fired", NOW, None)] for name in names)
    assert not mill.misplaced()


@pytest.mark.parametrize("round_", range(scaled(2)))
def test_b028_passes_killed_between_making_and_moving_on_lose_and_double_nothing(mill: Mill, round_: int) -> None:
    names = twenty(mill)
    doomed = [begin(mill, deadly=n % 3 + 1) for n in range(5)]
    # Five of them hold at most fifteen of the twenty, so the first one finds some to die over, as long as no other is there.
    assert doomed[0].wait(timeout=120) == -signal.SIGKILL
    others = [begin(mill, deadly=0) for _ in range(5)]
    ends = [process.wait(timeout=120) for process in doomed]
    assert [process.wait(timeout=120) for process in others] == [0] * 5
    assert all(end in (0, -signal.SIGKILL) for end in ends)
    for _ in range(2):
        fire(mill, NOW)
    assert made(mill) == (20, 20)
    assert all(occurrences(mill, name) == [NOW] for name in names)
    assert not mill.misplaced()


def test_b028_a_pass_that_is_killed_leaves_neither_job_nor_move(mill: Mill) -> None:
    twenty(mill)
    assert begin(mill, deadly=1).wait(timeout=120) == -signal.SIGKILL
    assert made(mill) == (0, 0)
    assert fire(mill, NOW)["fired"] == 20
    assert made(mill) == (20, 20)


def test_b028_the_table_itself_refuses_a_second_job_of_one_occurrence(mill: Mill) -> None:
    put(mill, "s", BORN, cron="0 10 * * *")
    fire(mill, NOW)
    copied = "project_id, queue_id, scheduled_job_id, scheduled_for, job_type, phase, run_at, created_at, updated_at"
    copy = f"insert into tidemill.jobs (id, {copied}) select gen_random_uuid(), {copied} from tidemill.jobs"
    with pytest.raises(psycopg.errors.UniqueViolation):
        mill.conn.execute(copy.encode())


def test_b028_edits_and_passes_at_once_leave_one_occurrence_per_instant(mill: Mill) -> None:
    put(mill, "s", BORN)
    editor, passes = mill.another(), [mill.another() for _ in range(3)]
    over = threading.Event()

    def edit() -> None:
        for n in range(scaled(40)):
            schedules.edit(
                editor.store,
                mill.project_id,
                "s",
                lambda stored, n=n: replace(stored, is_paused=None, jitter_ms=n % 7),
                now=BORN,
            )
        over.set()

    def keep_firing(one: Mill) -> None:
        while not over.is_set():
            fire(one, BORN)

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(edit), *(pool.submit(keep_firing, one) for one in passes)]
        for future in futures:
            future.result(timeout=120)
    fire(mill, BORN)
    assert occurrences(mill, "s") == [BORN + M]
    assert not mill.misplaced()
