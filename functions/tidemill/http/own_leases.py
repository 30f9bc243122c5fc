"""A lease token opens nothing in another project: whoever got hold of one is told what the holder of a wrong one is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeVar

from tidemill.domain.jobs import Ack, Heartbeat, Lease
from tidemill.store.postgres import PostgresStore

FITS_NOTHING: Final = "00000000-0000-0000-0000-000000000000"
"""Tokens are random: no lease has this one."""

Report = TypeVar("Report", Ack, Lease)


def own(store: PostgresStore, project_id: str, reports: Sequence[Report]) -> list[Report]:
    """The same reports in the same order; those on jobs of another project carry a token that fits nothing."""
    foreign = store.foreign(project_id, [report.job_id for report in reports]) if reports else frozenset()
    return [report._replace(lease_token=FITS_NOTHING) if report.job_id in foreign else report for report in reports]


def own_beat(store: PostgresStore, project_id: str, beat: Heartbeat) -> Heartbeat:
    """The heartbeat with its own leases."""
    return replace(beat, leases=own(store, project_id, beat.leases))
