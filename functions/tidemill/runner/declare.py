"""What an app's `@app.schedule` declarations mean: specs by name, checked when a worker starts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from tidemill.domain.cron import OnFold, OnGap
from tidemill.domain.errors import Invalid
from tidemill.domain.schedule import OnMissed, Overlap, Spec, check
from tidemill.runner.app import App, AppInvalid, Declared

_ENUMS: Final = {"on_gap": OnGap, "on_fold": OnFold, "on_missed": OnMissed, "overlap": Overlap}
_SOME_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)


def declared(app: App) -> dict[str, Spec]:
    """The app's schedules. AppInvalid names the first that cannot be, and why."""
    return {name: _spec(app, name, one) for name, one in app.schedules.items()}


def _spec(app: App, name: str, one: Declared) -> Spec:
    job_type = one.job_type or next((kind.name for kind in app.jobs.values() if kind.handler is one.handler), None)
    if job_type is None:
        raise AppInvalid(f"schedule {name!r}: put it above @app.job(…), or give job_type")
    try:
        spec = Spec(job=app.job_object(job_type, one.payload, **one.fields), **_read(one.rules))
        check(spec, anchor=_SOME_DAY, now=_SOME_DAY)
    except (TypeError, ValueError) as error:
        raise AppInvalid(f"schedule {name!r}: {error}") from None
    except Invalid as error:
        raise AppInvalid(f"schedule {name!r}: {error.detail}") from None
    return spec


def _read(rules: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _ENUMS[name](value) if name in _ENUMS else value for name, value in rules.items()}
