"""B032: pausing, resuming, editing and re-creating never fire by themselves, and never lose the next one."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from harness.mill import DAY, H, M, Mill, S, uuid7
from harness.schedules import at, fire, jobs, occurrences, put, show, spec, told
from tidemill.domain.schedule import Schedule
from tidemill.engine import schedules

BORN = at("2030-01-01 09:00")
TEN = at("2030-01-01 10:00")
DAILY = {"cron": "0 10 * * *"}


def edit(mill: Mill, now: datetime, **fields: Any) -> Schedule:
    return schedules.edit(mill.store, mill.project_id, "s", lambda stored: replace(stored, is_paused=None, **fields), now=now)


def agrees_with_preview(mill: Mill, now: datetime) -> bool:
    found = show(mill, "s", now)
    return found.next_run_at == schedules.preview(found.spec, anchor=found.anchor_at, after=now, n=1).fires[0]


def test_b032_an_instant_within_a_pause_is_not_made_up_for(mill: Mill) -> None:
    put(mill, "s", BORN, **DAILY)
    schedules.pause(mill.store, mill.project_id, "s", now=TEN - M)
    fire(mill, TEN + 10 * S)
    schedules.resume(mill.store, mill.project_id, "s", now=TEN + 30 * M)
    assert agrees_with_preview(mill, TEN + 30 * M)
    fire(mill, TEN + 31 * M)
    assert not jobs(mill, "s")
    fire(mill, TEN + DAY)
    assert occurrences(mill, "s") == [TEN + DAY]


def test_b032_a_pause_takes_back_what_was_made_ready_and_a_resume_in_time_brings_it(mill: Mill) -> None:
    put(mill, "s", BORN, **DAILY)
    fire(mill, TEN - M)
    assert occurrences(mill, "s") == [TEN]
    schedules.pause(mill.store, mill.project_id, "s", now=TEN - 50 * S)
    assert occurrences(mill, "s", cancelled=True) == [TEN]
    assert told(mill, "s")[-1] == ("cancelled", TEN, "schedule_paused")
    schedules.resume(mill.store, mill.project_id, "s", now=TEN - 40 * S)
    assert agrees_with_preview(mill, TEN - 40 * S)
    fire(mill, TEN - 30 * S)
    assert occurrences(mill, "s") == [TEN]
    assert len(mill.claim(5, now=TEN)) == 1
    assert not mill.misplaced()


def test_b032_a_pause_does_not_touch_what_has_begun_or_come(mill: Mill) -> None:
    put(mill, "s", BORN, **DAILY)
    fire(mill, TEN - M)
    schedules.pause(mill.store, mill.project_id, "s", now=TEN)
    assert occurrences(mill, "s") == [TEN]


def test_b032_a_pause_takes_back_what_only_jitter_holds_back(mill: Mill) -> None:
    put(mill, "s", BORN, jitter_ms=3_600_000, **DAILY)
    fire(mill, TEN - M)
    schedules.pause(mill.store, mill.project_id, "s", now=TEN + S)
    assert occurrences(mill, "s", cancelled=True) == [TEN]


def test_b032_history_survives_a_pause(mill: Mill) -> None:
    put(mill, "s", BORN, **DAILY)
    fire(mill, TEN)
    fire(mill, TEN + DAY - M)
    schedules.pause(mill.store, mill.project_id, "s", now=TEN + DAY - 30 * S)
    assert show(mill, "s", TEN + 2 * DAY).last_run_at == TEN
    assert ("fired", TEN, None) in told(mill, "s")


def test_b032_an_earlier_time_that_has_passed_waits_for_tomorrow(mill: Mill) -> None:
    put(mill, "s", BORN, **DAILY)
    assert edit(mill, at("2030-01-01 09:30"), cron="0 9 * * *").next_run_at == at("2030-01-02 09:00")
    fire(mill, TEN + M)
    assert not jobs(mill, "s"), "neither at once nor at the old time"


def test_b032_a_later_time_today_fires_today_beside_what_has_run(mill: Mill) -> None:
    put(mill, "s", BORN, **DAILY)
    fire(mill, TEN)
    edit(mill, TEN + 5 * M, cron="0 15 * * *")
    fire(mill, TEN + 5 * H)
    assert occurrences(mill, "s") == [TEN, TEN + 5 * H]


def test_b032_an_edit_takes_back_what_was_made_ready_for_the_old_time(mill: Mill) -> None:
    put(mill, "s", BORN, **DAILY)
    fire(mill, TEN - M)
    edit(mill, TEN - 30 * S, cron="5 10 * * *")
    assert told(mill, "s")[-1] == ("cancelled", TEN, "schedule_edited")
    fire(mill, TEN + 5 * M)
    assert occurrences(mill, "s") == [TEN + 5 * M]


def test_b032_a_new_payload_is_used_by_the_next_fire_even_if_that_was_ready(mill: Mill) -> None:
    put(mill, "s", BORN, job={"job_type": "t", "payload": {"v": 1}}, **DAILY)
    fire(mill, TEN - M)
    edit(mill, TEN - 30 * S, job={"job_type": "t", "payload": {"v": 2}})
    assert agrees_with_preview(mill, TEN - 30 * S)
    fire(mill, TEN - 20 * S)
    assert [(j["status"], j["payload"]) for j in jobs(mill, "s")] == [("cancelled", {"v": 1}), ("scheduled", {"v": 2})]


def test_b032_a_new_zone_counts_from_now(mill: Mill) -> None:
    put(mill, "s", BORN, **DAILY)
    assert edit(mill, at("2030-01-01 09:30"), timezone="Europe/Berlin").next_run_at == at("2030-01-02 09:00")
    assert edit(mill, at("2030-01-01 09:31"), timezone="America/New_York").next_run_at == at("2030-01-01 15:00")
    assert not jobs(mill, "s")


def test_b032_an_edit_after_a_missed_time_does_not_make_it_up(mill: Mill) -> None:
    put(mill, "s", BORN, **DAILY)
    edit(mill, TEN + H, jitter_ms=1)
    fire(mill, TEN + 2 * H)
    assert not jobs(mill, "s")
    assert agrees_with_preview(mill, TEN + 2 * H)


def test_b032_an_interval_keeps_its_phase_unless_it_changes_itself(mill: Mill) -> None:
    put(mill, "s", BORN, cron=None, every_ms=3_600_000)
    assert edit(mill, BORN + 10 * M, job={"job_type": "t", "payload": {}}).next_run_at == BORN + H
    assert edit(mill, BORN + 20 * M, every_ms=1_800_000).next_run_at == BORN + 50 * M
    assert edit(mill, BORN + 21 * M, starts_at=BORN + 2 * H).next_run_at == BORN + 2 * H


def test_b032_deleted_and_made_again_within_the_minute_it_fires(mill: Mill) -> None:
    put(mill, "s", BORN, **DAILY)
    fire(mill, TEN - M)
    schedules.delete(mill.store, mill.project_id, "s", now=TEN - 40 * S)
    put(mill, "s", TEN - 30 * S, **DAILY)
    fire(mill, TEN - 20 * S)
    assert occurrences(mill, "s") == [TEN]
    assert len(mill.claim(5, now=TEN)) == 1, "the first one's occurrence is gone"


def test_b032_the_same_definition_twice_is_one_schedule_with_one_phase(mill: Mill) -> None:
    first = put(mill, "s", BORN, cron=None, every_ms=60_000)
    second = put(mill, "s", BORN + 10 * S, cron=None, every_ms=60_000)
    assert (first.created, second.created, second.changed) == (True, False, False)
    assert first.schedule == second.schedule
    fire(mill, BORN + M)
    assert occurrences(mill, "s") == [BORN + M, BORN + 2 * M]


def test_b032_an_occurrence_that_ran_early_is_not_made_again_by_an_edit(mill: Mill) -> None:
    from tidemill.engine import operate

    put(mill, "s", BORN, **DAILY)
    fire(mill, TEN - M)
    operate.promote(mill.store, mill.project_id, jobs(mill, "s")[0]["id"], now=TEN - 50 * S)
    mill.complete(mill.claim_one(now=TEN - 50 * S), now=TEN - 49 * S)
    edit(mill, TEN - 40 * S, jitter_ms=1)
    fire(mill, TEN - 30 * S)
    assert occurrences(mill, "s") == [TEN]
    assert show(mill, "s", TEN).next_run_at == TEN + DAY


def test_what_a_program_declares_no_more_is_paused_with_a_note_and_comes_back(mill: Mill) -> None:
    def declare(*names: str, now: datetime) -> dict[str, int]:
        wanted = {name: spec(**DAILY) for name in names}
        return dict(schedules.sync(mill.store, mill.project_id, "shop", wanted, new_id=uuid7, now=now))

    assert declare("s", "t", now=BORN) == {"created": 2, "changed": 0, "paused": 0}
    put(mill, "by-hand", BORN, **DAILY)
    assert declare("t", now=BORN + M) == {"created": 0, "changed": 0, "paused": 1}
    gone = show(mill, "s", BORN + M)
    assert (gone.is_active, gone.note, gone.declared_by) == (False, "no longer declared by shop", "shop")
    assert show(mill, "by-hand", BORN).is_active
    assert declare("s", "t", now=BORN + 2 * M) == {"created": 0, "changed": 0, "paused": 0}
    assert show(mill, "s", BORN + 2 * M).is_active
    schedules.pause(mill.store, mill.project_id, "t", now=BORN + 3 * M)
    declare("s", "t", now=BORN + 4 * M)
    assert not show(mill, "t", BORN + 4 * M).is_active, "a pause by hand stays"
