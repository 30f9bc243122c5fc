"""What the engine and the runner ask of the world: `store` of a database, `source` of where jobs come from, `chance` of luck."""

from __future__ import annotations

from tidemill.ports.chance import Rolls
from tidemill.ports.signing import SigningKey, SigningKeys
from tidemill.ports.source import JobSource
from tidemill.ports.store import (
    ClaimStore,
    EnqueueStore,
    FamilyStore,
    HeartbeatStore,
    OperateStore,
    ReportStore,
    SettleStore,
    SweepStore,
    Transactions,
    WorkStore,
)

__all__ = [
    "ClaimStore",
    "EnqueueStore",
    "FamilyStore",
    "HeartbeatStore",
    "JobSource",
    "OperateStore",
    "ReportStore",
    "Rolls",
    "SettleStore",
    "SigningKey",
    "SigningKeys",
    "SweepStore",
    "Transactions",
    "WorkStore",
]
