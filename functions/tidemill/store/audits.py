"""The audit log: who did what to which thing, written in the transaction that does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.store.reads import Reads, Row
from tidemill.store.statements import sql


class Audits(Reads):
    """Writes and lists notes."""

    def lock_thing(self, thing: str) -> None:
        """Waits for whoever changes the thing of this name in another transaction; released at the end of this one."""
        self._conn.execute(sql("audit/lock"), {"thing": thing})

    def audit(self, note: Mapping[str, Any]) -> bool:
        """Writes a note, see audit/write. False if there was nothing to note."""
        return self._row("audit/write", note) is not None

    def audit_log(self, project_id: str, *, before: int | None, filters: Mapping[str, Any], scan: int) -> list[Row]:
        """At most `scan` notes of the project behind an id, newest first; `matches` says which the filters want."""
        return self._dicts("audit/list", {"project_id": project_id, "before": before, "scan": scan, **filters})

    def audit_log_of(self, org_id: str, *, before: int | None, filters: Mapping[str, Any], scan: int) -> list[Row]:
        """The same of what happened to an organization, its members and its projects."""
        return self._dicts("audit/of_organization", {"org_id": org_id, "before": before, "scan": scan, **filters})
