"""The store: every port's adapter on one connection."""

from __future__ import annotations

from tidemill.store.accounts import Accounts
from tidemill.store.api_keys import ApiKeys
from tidemill.store.audits import Audits
from tidemill.store.changes import ChangeReads
from tidemill.store.claims import Claims
from tidemill.store.configures import Configures
from tidemill.store.dead_letters import DeadLetters
from tidemill.store.enqueues import Enqueues
from tidemill.store.explains import Explains
from tidemill.store.families import Families
from tidemill.store.heartbeats import Heartbeats
from tidemill.store.limits import Limits
from tidemill.store.numbers import Numbers
from tidemill.store.operates import Operates
from tidemill.store.operations import Operations
from tidemill.store.partitions import Partitions
from tidemill.store.quarantines import Quarantines
from tidemill.store.reports import Reports
from tidemill.store.schedules import Schedules
from tidemill.store.sessions import Sessions
from tidemill.store.settles import Settles
from tidemill.store.simulates import Simulates
from tidemill.store.snapshots import Snapshots
from tidemill.store.stats import Stats
from tidemill.store.sweeps import Sweeps
from tidemill.store.webhooks import Webhooks


class PostgresStore(
    Enqueues,
    Claims,
    Settles,
    Heartbeats,
    Reports,
    Operates,
    Families,
    Sweeps,
    Schedules,
    Configures,
    Limits,
    ApiKeys,
    Operations,
    Explains,
    DeadLetters,
    Audits,
    Numbers,
    ChangeReads,
    Snapshots,
    Accounts,
    Sessions,
    Stats,
    Partitions,
    Simulates,
    Quarantines,
    Webhooks,
):
    """Fulfils all of `ports` on a psycopg connection in autocommit. Raises psycopg.Error; store.faults translates."""
