"""A program that declares a thousand schedules: a few look-ups for all of them, and one statement per schedule that is new."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from harness.clock import allowed
from harness.mill import Mill, uuid7
from harness.schedules import spec
from tidemill.domain.errors import Invalid
from tidemill.engine import schedules
from tidemill.store.postgres import PostgresStore


class Counting(PostgresStore):
    """Counts the statements."""

    sent = 0

    def _rows(self, name: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        self.sent += 1
        return super()._rows(name, params)

    def _row(self, name: str, params: Mapping[str, Any]) -> tuple[Any, ...] | None:
        self.sent += 1
        return super()._row(name, params)


def sync(mill: Mill, specs: dict[str, Any]) -> tuple[dict[str, int], int]:
    store = Counting(mill.conn)
    counts = dict(schedules.sync(store, mill.project_id, "app", specs, new_id=uuid7))
    return counts, store.sent


def test_a_thousand_schedules_take_seconds_and_few_statements(mill: Mill) -> None:
    specs = {f"s{n}": spec(cron=f"{n % 60} {n % 24} * * *", timezone="Europe/Berlin", jitter_ms=n) for n in range(1_000)}
    began = time.monotonic()
    counts, sent = sync(mill, specs)
    assert time.monotonic() - began < allowed(5)
    assert counts == {"created": 1_000, "changed": 0, "paused": 0}
    assert sent <= 1_030
    counts, sent = sync(mill, specs)
    assert counts == {"created": 0, "changed": 0, "paused": 0}
    assert sent <= 30
    counts, _ = sync(mill, {name: specs[name] for name in list(specs)[:990]} | {"s0": spec(every_ms=60_000)})
    assert counts == {"created": 0, "changed": 1, "paused": 10}
    counts, _ = sync(mill, specs)
    assert counts == {"created": 0, "changed": 1, "paused": 0}
    assert mill.conn.execute("select count(*) from tidemill.scheduled_jobs where is_active").fetchone() == (1_000,)


def test_a_fault_of_one_names_it_and_stores_nothing_of_its_part(mill: Mill) -> None:
    good = {f"s{n}": spec() for n in range(3)}
    for job, field in (({"job_type": "t", "queue": "nowhere"}, "queue"), ({"job_type": "t", "tags": "x"}, "tags")):
        with pytest.raises(Invalid) as caught:
            sync(mill, good | {"bad": spec(job=job)})
        assert caught.value.faults[0].loc == ("job", field)
        assert mill.count("scheduled_jobs") == 0
