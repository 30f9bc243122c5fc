"""Firing: what becomes of occurrences that are due, missed, ahead, or met by an unfinished predecessor."""

from datetime import datetime, timedelta

import pytest

from harness.mill import DAY, H, M, Mill, S
from harness.schedules import at, finish_all, fire, jobs, occurrences, put, show, told
from tidemill.domain.schedule import OnMissed, Overlap, jitter
from tidemill.engine import schedules

NOW = at("2030-01-01 09:59:30")
TEN = at("2030-01-01 10:00")


def test_an_occurrence_is_made_ready_ahead_and_runs_on_its_second(mill: Mill) -> None:
    put(mill, "minutely", NOW)
    assert fire(mill, NOW)["fired"] == 2  # 10:00 and 10:01 lie within 90 s
    assert occurrences(mill, "minutely") == [TEN, TEN + M]
    assert not mill.claim(10, now=TEN - timedelta(milliseconds=1))
    assert len(mill.claim(10, now=TEN)) == 1
    assert len(mill.claim(10, now=TEN + M)) == 1
    assert not mill.misplaced()


def test_passes_a_minute_apart_start_every_minute_on_its_second(mill: Mill) -> None:
    put(mill, "minutely", NOW)
    begun = []
    for minute in range(10):
        now = NOW + minute * M
        fire(mill, now)
        begun += [len(mill.claim(10, now=now + 30 * S - timedelta(microseconds=1))), len(mill.claim(10, now=now + 30 * S))]
    assert begun == [0, 1] * 10


def test_next_and_last_run_are_told_by_the_clock_not_by_what_is_ready(mill: Mill) -> None:
    put(mill, "minutely", NOW)
    fire(mill, NOW)
    seen = show(mill, "minutely", NOW)
    assert (seen.next_run_at, seen.last_run_at) == (TEN, None)
    seen = show(mill, "minutely", TEN + S)
    assert (seen.next_run_at, seen.last_run_at) == (TEN + M, TEN)


def test_payload_strings_are_filled_in_and_nothing_else(mill: Mill) -> None:
    payload = {"day": "for {{scheduled_at}} by {{ schedule }}", "deep": [{"{{schedule}}": "{{schedule}}{{other}}"}], "n": 1.0}
    put(mill, "nightly", NOW, cron="0 10 * * *", job={"job_type": "t", "payload": payload})
    fire(mill, NOW)
    assert jobs(mill, "nightly")[0]["payload"] == {
        "day": "for 2030-01-01T10:00:00Z by nightly", "deep": [{"{{schedule}}": "nightly{{other}}"}], "n": 1.0
    }  # fmt: skip


def test_jitter_delays_a_run_by_the_same_amount_whoever_reckons(mill: Mill) -> None:
    put(mill, "spread", NOW, jitter_ms=30_000)
    fire(mill, NOW)
    first = jobs(mill, "spread")[0]
    assert first["scheduled_for"].startswith("2030-01-01T10:00:00")
    delay = datetime.fromisoformat(first["run_at"]) - TEN
    assert delay == jitter(show(mill, "spread", NOW).id, TEN, 30_000)
    assert timedelta(0) <= delay < 30 * S


@pytest.mark.parametrize(
    ("rule", "limit", "made"),
    [(OnMissed.SKIP, 0, 0), (OnMissed.RUN_ONCE, 0, 1), (OnMissed.BACKFILL, 2, 2), (OnMissed.BACKFILL, 500, 3)],
)
def test_missed_occurrences_follow_the_rule(mill: Mill, rule: OnMissed, limit: int, made: int) -> None:
    put(mill, "hourly", NOW, cron="0 * * * *", on_missed=rule, backfill_limit=limit)
    fire(mill, TEN + 2 * H + 30 * M)
    assert occurrences(mill, "hourly") == [TEN, TEN + H, TEN + 2 * H][3 - made :]
    assert sum(kind == "skipped" for kind, _, _ in told(mill, "hourly")) == (made < 3)
    assert show(mill, "hourly", TEN + 2 * H + 30 * M).next_run_at == TEN + 3 * H


def test_skip_still_meets_an_instant_that_the_pass_came_late_for(mill: Mill) -> None:
    put(mill, "daily", NOW, cron="0 10 * * *", on_missed=OnMissed.SKIP)
    fire(mill, TEN + 90 * S)
    assert occurrences(mill, "daily") == [TEN]


def test_a_backfill_of_hundreds_is_made_in_bounded_steps(mill: Mill) -> None:
    put(mill, "minutely", NOW, on_missed=OnMissed.BACKFILL, backfill_limit=1_000)
    counts = fire(mill, TEN + 10 * H)
    assert counts["fired"] == 601 + 1  # 10:00 … 20:00, and 20:01 ahead
    assert occurrences(mill, "minutely") == [TEN + n * M for n in range(602)]
    assert len(told(mill, "minutely")) == 100, "only the last 100 events are kept"


def test_overlap_skip_waits_for_the_moment_and_then_skips(mill: Mill) -> None:
    put(mill, "slow", NOW, overlap=Overlap.SKIP)
    fire(mill, NOW)
    assert occurrences(mill, "slow") == [TEN], "with any overlap rule one is made ahead, not two"
    job = mill.claim_one(now=TEN)
    assert fire(mill, TEN + 30 * S)["fired"] == 0, "10:01 is not decided before its time while 10:00 runs"
    fire(mill, TEN + M + S)
    assert told(mill, "slow")[-1] == ("skipped", TEN + M, "the previous one is unfinished")
    mill.complete(job, now=TEN + M + 5 * S)
    fire(mill, TEN + M + 30 * S)
    assert occurrences(mill, "slow") == [TEN, TEN + 2 * M]


def test_overlap_that_ends_in_time_is_none(mill: Mill) -> None:
    put(mill, "slow", NOW, overlap=Overlap.SKIP)
    fire(mill, NOW)
    job = mill.claim_one(now=TEN)
    fire(mill, TEN + 30 * S)
    mill.complete(job, now=TEN + 59 * S)
    fire(mill, TEN + M + S)
    assert occurrences(mill, "slow")[:2] == [TEN, TEN + M]


def test_buffer_one_starts_when_the_previous_one_ends_and_holds_one_only(mill: Mill) -> None:
    put(mill, "slow", NOW, overlap=Overlap.BUFFER_ONE)
    fire(mill, NOW)
    job = mill.claim_one(now=TEN)
    fire(mill, TEN + M)
    fire(mill, TEN + 2 * M)
    assert [j["status"] for j in jobs(mill, "slow")] == ["running", "pending"]
    assert told(mill, "slow")[-1] == ("skipped", TEN + 2 * M, "the previous one is unfinished and one waits already")
    assert not mill.claim(5, now=TEN + 2 * M)
    mill.fail(job, retryable=False, now=TEN + 2 * M)
    assert mill.claim_one(now=TEN + 2 * M).job_id == jobs(mill, "slow")[1]["id"]
    assert not mill.misplaced()


def test_buffer_one_starts_on_its_second_if_the_previous_one_has_ended(mill: Mill) -> None:
    put(mill, "slow", NOW, overlap=Overlap.BUFFER_ONE)
    fire(mill, NOW)
    job = mill.claim_one(now=TEN)
    mill.complete(job, now=TEN + 50 * S)
    assert not mill.claim(5, now=TEN + 59 * S)
    assert mill.claim_one(now=TEN + M).job_id == jobs(mill, "slow")[1]["id"]


def test_buffer_one_missed_twice_runs_one_after_the_other(mill: Mill) -> None:
    put(mill, "slow", NOW, overlap=Overlap.BUFFER_ONE, on_missed=OnMissed.BACKFILL, backfill_limit=10)
    fire(mill, TEN + 5 * M)
    assert occurrences(mill, "slow") == [TEN, TEN + M]
    assert told(mill, "slow")[-1] == ("fired", TEN + M, "late by 240 s; waits for the previous one to end")
    first = mill.claim(5, now=TEN + 5 * M)
    assert len(first) == 1
    mill.complete(first[0], now=TEN + 5 * M)
    assert len(mill.claim(5, now=TEN + 5 * M)) == 1


def test_cancel_running_asks_the_previous_one_to_stop_and_starts(mill: Mill) -> None:
    put(mill, "slow", NOW, overlap=Overlap.CANCEL_RUNNING)
    fire(mill, NOW)
    job = mill.claim_one(now=TEN)
    fire(mill, TEN + M)
    assert mill.beat(job, now=TEN + M).cancel == [job.job_id]
    assert occurrences(mill, "slow") == [TEN, TEN + M]
    assert told(mill, "slow")[-1] == ("fired", TEN + M, "the previous one was asked to stop")


def test_cancel_running_takes_the_place_of_one_that_has_not_begun(mill: Mill) -> None:
    put(mill, "slow", NOW, overlap=Overlap.CANCEL_RUNNING)
    fire(mill, NOW)
    fire(mill, TEN + M)
    assert [j["status"] for j in jobs(mill, "slow")] == ["cancelled", "scheduled"]


def test_an_unfinished_job_of_another_schedule_is_no_overlap(mill: Mill) -> None:
    put(mill, "a", NOW, overlap=Overlap.SKIP)
    put(mill, "b", NOW, overlap=Overlap.SKIP)
    fire(mill, NOW)
    assert occurrences(mill, "a") == occurrences(mill, "b") == [TEN]


def test_the_period_bounds_every_occurrence(mill: Mill) -> None:
    put(mill, "limited", NOW, starts_at=TEN + 2 * M, ends_at=TEN + 5 * M, on_missed=OnMissed.BACKFILL, backfill_limit=100)
    assert show(mill, "limited", NOW).next_run_at == TEN + 2 * M
    fire(mill, TEN + H)
    assert occurrences(mill, "limited") == [TEN + 2 * M, TEN + 3 * M, TEN + 4 * M]
    assert show(mill, "limited", TEN + H).next_run_at is None


def test_an_interval_counts_from_its_anchor(mill: Mill) -> None:
    put(mill, "every", NOW, cron=None, every_ms=90_000)
    fire(mill, NOW)
    assert occurrences(mill, "every") == [NOW + 90 * S]
    assert show(mill, "every", NOW).next_run_at == NOW + 90 * S


def test_an_occurrence_that_exists_is_never_made_again(mill: Mill) -> None:
    put(mill, "minutely", NOW)
    fire(mill, NOW)
    mill.conn.execute("update tidemill.scheduled_jobs set next_run_at = %s", [TEN])
    fire(mill, NOW)
    assert occurrences(mill, "minutely") == [TEN, TEN + M]
    assert told(mill, "minutely")[-1] == ("skipped", TEN + M, "exists already")


def test_a_unique_key_that_is_held_skips_the_occurrence(mill: Mill) -> None:
    put(mill, "minutely", NOW, job={"job_type": "t", "unique": {}})
    fire(mill, NOW)
    assert occurrences(mill, "minutely") == [TEN]
    assert told(mill, "minutely")[-1] == ("skipped", TEN + M, "a job holds its unique key")


def test_a_trigger_makes_one_job_now_and_moves_nothing(mill: Mill) -> None:
    put(mill, "daily", NOW, cron="0 10 * * *", job={"job_type": "t", "payload": {"at": "{{scheduled_at}}"}})
    before = show(mill, "daily", NOW)
    made = schedules.trigger(mill.store, mill.project_id, "daily", now=NOW)
    assert mill.claim_one(now=NOW).job_id == made.job_id
    assert show(mill, "daily", NOW) == before
    assert jobs(mill, "daily")[0]["payload"] == {"at": "2030-01-01T09:59:30Z"}
    assert told(mill, "daily") == [("fired", NOW, "by hand")]


def test_new_zone_data_moves_the_next_run_and_fires_nothing(mill: Mill) -> None:
    put(mill, "berlin", NOW, cron="0 12 * * *", timezone="Europe/Berlin")  # 11:00 UTC in winter
    mill.conn.execute("update tidemill.scheduled_jobs set next_run_at = %s, zone_data_release = '2001a'", [TEN])
    assert fire(mill, NOW) == {"recomputed": 1, "schedules": 0, "fired": 0, "skipped": 0, "broken": 0}
    assert show(mill, "berlin", NOW).next_run_at == TEN + H
    assert not jobs(mill, "berlin")


def test_new_zone_data_takes_back_what_was_made_ready_by_the_old(mill: Mill) -> None:
    put(mill, "berlin", NOW, cron="0 12 * * *", timezone="Europe/Berlin")
    mill.conn.execute("update tidemill.scheduled_jobs set next_run_at = %s", [TEN])
    fire(mill, NOW)
    mill.conn.execute("update tidemill.scheduled_jobs set zone_data_release = '2001a'")
    assert fire(mill, NOW)["recomputed"] == 1
    assert occurrences(mill, "berlin") == []
    assert show(mill, "berlin", NOW).next_run_at == TEN + H


def test_new_zone_data_leaves_alone_what_is_right_by_it_too(mill: Mill) -> None:
    put(mill, "minutely", NOW)
    fire(mill, NOW)
    before = jobs(mill, "minutely")
    mill.conn.execute("update tidemill.scheduled_jobs set zone_data_release = '2001a'")
    assert fire(mill, NOW)["recomputed"] == 1
    assert jobs(mill, "minutely") == before
    assert show(mill, "minutely", NOW + M).zone_data_release != "2001a"


def test_new_zone_data_does_not_lose_an_overdue_run(mill: Mill) -> None:
    put(mill, "daily", NOW, cron="0 10 * * *")
    mill.conn.execute("update tidemill.scheduled_jobs set zone_data_release = '2001a'")
    fire(mill, TEN + 3 * H)
    assert occurrences(mill, "daily") == [TEN]


def test_a_schedule_made_by_sql_without_more_than_the_seed_columns_fires(mill: Mill) -> None:
    mill.conn.execute(
        "insert into tidemill.scheduled_jobs (id, project_id, queue_id, name, cron_expression, timezone, job_type, next_run_at)"
        " select gen_random_uuid(), project_id, id, 'by-sql', '0 10 * * *', 'UTC', 't', %s from tidemill.queues".replace(
            "by sql", "by-sql"
        ),
        [TEN],
    )
    fire(mill, NOW)
    assert occurrences(mill, "by-sql") == [TEN]
    assert show(mill, "by-sql", TEN + S).next_run_at == TEN + DAY


def test_finishing_lets_the_next_one_be_made_ahead(mill: Mill) -> None:
    put(mill, "quick", NOW, overlap=Overlap.SKIP)
    for minute in range(5):
        fire(mill, NOW + minute * M)
        assert finish_all(mill, TEN + minute * M) == 1
    assert occurrences(mill, "quick") == [TEN + n * M for n in range(5)]
