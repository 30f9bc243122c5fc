"""The cron cases where callers meet them: previews over HTTP, refusals that store nothing, and what ticks make of the table."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from api.gateway import Gateway
from harness import lent
from harness.mill import Mill, opened
from harness.schedules import fire, occurrences, put
from tidemill.domain.schedule import OnMissed
from tidemill.store.database import connect
from unit.cron_table import ROWS, Row

BY_ID = {row.id: row for row in ROWS}
CASES = {
    "b010": ["C01", "C08", "C09", "C09b", "D51", "E6", "E9"],
    "b011": ["C02", "C07", "C39", "E8", "E16", "D52", "C42"],
    "b012": ["C03", "C04", "C40", "C05", "C06", "E5", "E7"],
    "b014": ["C14", "E20", "D39", "D40", "D41", "C15", "C15b"],
    "b017": ["C16", "C16b", "D34", "D35", "E11", "E19", "D36", "D37", "E14", "C38", "D31", "E15"],
    "b018": ["D01", "D03", "D02b", "D21"],
    "b020": ["D19", "D19b", "D19e"],
    "b022": ["D13", "D13b", "D14", "D15", "D16", "D17", "D20", "D20b", "D20c", "D20d", "D20e", "D20f", "D20g"],
    "b022_legal": ["D10", "D11", "D12", "D42", "D44", "D17c", "D18", "D18b", "D18c", "D18d", "D18e"],
    "b024": ["D23", "D23b", "D23c", "D23d", "D24u", "D22e", "D22f"],
    "b024_legal": ["D22", "D22b", "D22c", "D22d", "E14"],
    "b025": [row.id for row in ROWS if row.id.startswith("D24") and not row.fires and row.id != "D24u"],
}


def rows(*cases: str) -> Any:
    return pytest.mark.parametrize("row", [BY_ID[name] for case in cases for name in CASES[case]], ids=lambda row: row.id)


def previewed(gateway: Gateway, row: Row, n: int, **more: Any) -> list[datetime]:
    body = {"cron": row.expression, "timezone": row.zone, "after": row.after.isoformat(), "n": n, **more}
    reply = gateway.post("/v1/schedules/preview", body)
    assert reply.status == 200, reply.text
    return [datetime.fromisoformat(fire) for fire in reply.json["fires"]]


def fired_by_ticks(gateway: Gateway, row: Row) -> list[datetime]:
    """What a schedule of this row has fired once its tabled instants have passed."""
    mill = Mill(gateway.dsn, connect(gateway.dsn), gateway.project_id)
    try:
        put(mill, "s", row.after, cron=row.expression, timezone=row.zone, on_missed=OnMissed.BACKFILL, backfill_limit=1_000)
        for instant in row.fires:
            fire(mill, instant + timedelta(seconds=1))
        return [instant for instant in occurrences(mill, "s") if instant <= row.fires[-1]]
    finally:
        mill.close()


@rows("b010")
def test_b010_a_time_inside_the_spring_gap_is_previewed_and_fired_once(gateway: Gateway, row: Row) -> None:
    assert previewed(gateway, row, len(row.fires)) == row.fires == fired_by_ticks(gateway, row)
    if row.skipping:
        assert previewed(gateway, row, len(row.skipping), on_gap="skip") == row.skipping


@rows("b011")
def test_b011_a_time_that_comes_twice_is_previewed_and_fired_once(gateway: Gateway, row: Row) -> None:
    assert previewed(gateway, row, len(row.fires)) == row.fires == fired_by_ticks(gateway, row)


def test_b011_ticks_in_the_second_pass_of_the_hour_fire_nothing(database: str) -> None:
    with opened(database) as mill:
        born = datetime(2027, 10, 30, 12, tzinfo=UTC)
        put(mill, "s", born, cron="30 2 * * *", timezone="Europe/Berlin")
        first = datetime(2027, 10, 31, 0, 30, tzinfo=UTC)
        assert fire(mill, first)["fired"] == 1
        for minute in range(1, 121):
            assert fire(mill, first + timedelta(minutes=minute)) == dict.fromkeys(
                ("schedules", "fired", "skipped", "broken", "recomputed"), 0
            )


@rows("b012")
def test_b012_wildcards_keep_real_time_in_previews_and_fires(gateway: Gateway, row: Row) -> None:
    assert previewed(gateway, row, len(row.fires)) == row.fires == fired_by_ticks(gateway, row)


def test_b012_a_thousand_fires_are_previewed_within_a_second(shared_gateway: Gateway) -> None:
    began = time.process_time()
    found = previewed(shared_gateway, BY_ID["C03"], 1_000)
    assert time.process_time() - began < 1
    assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(hours=1)}


@rows("b014")
def test_b014_changed_zones_follow_the_release_that_the_service_names(gateway: Gateway, row: Row) -> None:
    assert gateway.get("/readyz", key=None).json["tzdata"] >= "2026c"
    assert previewed(gateway, row, len(row.fires)) == row.fires == fired_by_ticks(gateway, row)


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York"])
def test_b014_the_databases_own_zone_changes_no_instant(gateway: Gateway, zone: str) -> None:
    name = psycopg.conninfo.conninfo_to_dict(gateway.dsn)["dbname"]
    with psycopg.connect(gateway.dsn, autocommit=True) as conn:
        conn.execute(f"alter database \"{name}\" set timezone = '{zone}'".encode())
    lent.forget(gateway.dsn)
    row = BY_ID["C14"]
    assert previewed(gateway, row, len(row.fires)) == row.fires == fired_by_ticks(gateway, row)


@rows("b017")
def test_b017_days_and_hours_are_those_of_the_schedules_zone(gateway: Gateway, row: Row) -> None:
    assert previewed(gateway, row, len(row.fires)) == row.fires == fired_by_ticks(gateway, row)


@rows("b018")
def test_b018_both_day_fields_mean_or_and_the_answer_says_so(shared_gateway: Gateway, row: Row) -> None:
    assert previewed(shared_gateway, row, len(row.fires)) == row.fires
    made = shared_gateway.request("PUT", "/v1/schedules/s", {"cron": row.expression, "job": {"job_type": "t"}}).json
    assert " OR " in made["description"]


def refused(gateway: Gateway, expression: str) -> dict[str, Any]:
    """Put, edit and preview all refuse; what is stored stays, and a tick has nothing to do."""
    good = {"cron": "0 9 * * *", "job": {"job_type": "t"}}
    assert gateway.request("PUT", "/v1/schedules/good", good).status in (200, 201)
    before = gateway.get("/v1/schedules").json
    bad = gateway.request("PUT", "/v1/schedules/bad", {**good, "cron": expression})
    assert bad.status == 422, bad.text
    for reply in (
        gateway.request("PUT", "/v1/schedules/good", {**good, "cron": expression}),
        gateway.request("PATCH", "/v1/schedules/good", {"cron": expression}),
        gateway.post("/v1/schedules/preview", {"cron": expression}),
    ):
        assert (reply.status, reply.json["errors"]) == (422, bad.json["errors"])
    assert gateway.get("/v1/schedules").json == before
    fired = next(phase for phase in gateway.post("/v1/tick").json["phases"] if phase["name"] == "fire")
    assert (fired["error"], fired["counts"]["broken"]) == (None, 0)
    found: dict[str, Any] = bad.json
    return found


@rows("b020")
def test_b020_a_date_that_never_comes_is_refused_naming_the_day(shared_gateway: Gateway, row: Row) -> None:
    assert "day-of-month" in refused(shared_gateway, row.expression)["errors"][0]["msg"]


@pytest.mark.parametrize("name", ["C18", "D29", "D30"])
def test_b020_rare_dates_are_accepted(shared_gateway: Gateway, name: str) -> None:
    row = BY_ID[name]
    assert shared_gateway.request("PUT", f"/v1/schedules/{name}", {"cron": row.expression, "job": {"job_type": "t"}}).status == 201
    assert previewed(shared_gateway, row, len(row.fires)) == row.fires


@rows("b022")
def test_b022_bad_steps_ranges_and_values_are_refused(shared_gateway: Gateway, row: Row) -> None:
    found = refused(shared_gateway, row.expression)
    assert found["errors"][0]["loc"] == ["cron"]
    assert found["hint"]
    assert found["part"] in row.expression


@rows("b022_legal", "b024_legal")
def test_b022_b024_legal_forms_fire_as_tabled(shared_gateway: Gateway, row: Row) -> None:
    assert previewed(shared_gateway, row, len(row.fires)) == row.fires


@rows("b024")
def test_b024_foreign_forms_are_refused_with_a_hint(shared_gateway: Gateway, row: Row) -> None:
    assert refused(shared_gateway, row.expression)["hint"]


@rows("b025")
def test_b025_garbage_is_refused_shortly(shared_gateway: Gateway, row: Row) -> None:
    assert len(refused(shared_gateway, row.expression)["detail"]) < 300


@pytest.mark.parametrize(
    "expression", ["* * * * *\x00", "\n* * * * *", "* * * * *\n", "1," * 60_000 + "1 * * * *", "*/1000000000000 * * * *", "0\xa00 * * *"]
)
def test_b025_long_and_unprintable_expressions_are_refused_without_echo(shared_gateway: Gateway, expression: str) -> None:
    reply = shared_gateway.request("PUT", "/v1/schedules/s", {"cron": expression, "job": {"job_type": "t"}})
    assert reply.status == 422
    assert len(reply.text) < 1_000


def test_b025_repeated_previews_give_the_same_instants(shared_gateway: Gateway) -> None:
    row = BY_ID["D24j"]
    assert previewed(shared_gateway, row, 5) == previewed(shared_gateway, row, 5)


def test_b028_two_schedules_of_one_expression_both_fire_in_one_tick(gateway: Gateway) -> None:
    for name in ("a", "b"):
        gateway.request("PUT", f"/v1/schedules/{name}", {"cron": "* * * * *", "job": {"job_type": "same"}})
    first = gateway.post("/v1/tick")
    again = gateway.post("/v1/tick")
    assert (first.status, again.status) == (200, 200)
    jobs = gateway.get("/v1/jobs").json["items"]
    keys = [(job["scheduled_job_id"], job["scheduled_for"]) for job in jobs]
    assert len(keys) == len(set(keys))
    assert len({schedule for schedule, _ in keys}) == 2


def test_b034_an_error_is_seen_over_the_api_and_the_tick_is_well(gateway: Gateway) -> None:
    for name in ("good", "broken"):
        gateway.request("PUT", f"/v1/schedules/{name}", {"cron": "* * * * *", "job": {"job_type": "t"}})
    with psycopg.connect(gateway.dsn, autocommit=True) as conn:
        conn.execute("update tidemill.scheduled_jobs set timezone = 'Mars/Olympus' where name = 'broken'")
    reply = gateway.post("/v1/tick")
    assert reply.status == 200
    phases = {phase["name"]: phase for phase in reply.json["phases"]}
    assert phases["fire"]["counts"]["broken"] == 1
    assert phases["fire"]["counts"]["fired"] >= 1
    assert all(phase["error"] is None for phase in phases.values())
    seen = gateway.get("/v1/schedules/broken").json
    assert "Mars/Olympus" not in seen["error"]
    assert "is not a time zone" in seen["error"]
    assert (seen["next_run_at"], seen["description"]) == (None, None)
    assert gateway.get("/v1/schedules/broken/events").json["items"][0]["kind"] == "error"
