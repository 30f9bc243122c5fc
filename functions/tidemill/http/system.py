"""What the service says about itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidemill.domain.errors import Internal, Unavailable
from tidemill.http.operation import Answer, Call, operation
from tidemill.version import __version__

DOCUMENT = Path(__file__).with_name("openapi.json")


@operation(answers={200: dict[str, str]})
def healthz(_: Call) -> Answer:
    """Say that the process answers. Asks nothing and nobody."""
    return Answer({"status": "ok"})


@operation(answers={200: dict[str, Any]})
def readyz(call: Call) -> Answer:
    """Say that the database answers, and which schema and tz data there are; 503 if it does not."""
    try:
        schema_version = call.database.run(lambda store: store.schema_version())
    except Internal:
        raise Unavailable("the database has no schema yet: run the migrator", retry_after_secs=5) from None
    return Answer({"status": "ready", "schema_version": schema_version, "tzdata": _tzdata()})


@operation(answers={200: dict[str, str]})
def version_of(call: Call) -> Answer:
    """Say which code runs."""
    return Answer({"version": __version__, "stage": call.stage, "tzdata": _tzdata()})


@operation(answers={200: dict[str, Any]})
def openapi(_: Call) -> Answer:
    """The OpenAPI 3.1 document of this API."""
    return Answer(DOCUMENT.read_text(encoding="utf-8"))


def _tzdata() -> str:
    """The IANA release of the time zone data that comes with this code, such as 2026c."""
    from tidemill.domain.cron import zone_data_release

    return zone_data_release()
