"""Who is calling, from the Authorization header. Loads neither pydantic nor a router: the authorizer's cold start precedes every other."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Any, Final

from tidemill.config import Settings
from tidemill.domain import api_keys
from tidemill.domain.api_keys import ApiKey
from tidemill.domain.errors import TidemillError
from tidemill.http import tokens
from tidemill.http.key_ring import KeyRing
from tidemill.http.origin import came_through
from tidemill.ports.signing import SigningKeys
from tidemill.store.api_keys import ApiKeys
from tidemill.store.database import Database
from tidemill.store.login import login

_BEARER: Final = re.compile(r"bearer +([^\s,]{1,2000})", re.IGNORECASE)
_JWT: Final = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)
_NOBODY: Final = {"fault": "unauthenticated"}
_NO_KEY: Final = bytes(32)
"""Compared where no key was found, so that it takes as long."""


class Authorizer:
    """Answers a gateway. One per Lambda environment. `keys`: where session tokens' keys come from; None = the table `signing_keys`."""

    def __init__(
        self, *, settings: Settings | None = None, database: Database | None = None, keys: SigningKeys | None = None, log: Any = None
    ) -> None:
        self._settings, self._database, self._keys, self._log = settings, database, keys, log

    def __call__(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """The simple answer of payload 2.0. Never a reason why a token is refused."""
        try:
            if not came_through(event, self.settings.origin_digest):
                return {"isAuthorized": False}
            context = self.caller(event)
        except TidemillError as error:
            if self._log is not None:
                about = event.get("requestContext")
                request_id = about.get("requestId") if isinstance(about, Mapping) else None
                self._log.error("authorizer failed", extra={"kind": type(error).__name__, "request_id": request_id})
            context = {"fault": error.code if error.code == "unavailable" else "internal"}
        return {"isAuthorized": True, "context": context}

    def caller(self, event: Mapping[str, Any]) -> dict[str, str]:
        """What the handlers get to know of the caller, or a fault. Raises what the database raises."""
        token = _token(event)
        if token is None:
            return _NOBODY
        if (key := api_keys.parse(token)) is not None:
            return self._of_key(key)
        return self._of_session(token) if _JWT.fullmatch(token) else _NOBODY

    @property
    def settings(self) -> Settings:
        """Read once."""
        if self._settings is None:
            self._settings = Settings.read()
        return self._settings

    @property
    def database(self) -> Database:
        """Connects when first used."""
        if self._database is None:
            self._database = Database(login(self.settings), make=ApiKeys)
        return self._database

    def _of_session(self, token: str) -> dict[str, str]:
        """Who is logged in. What they may do differs from project to project: that is asked per request, see admission."""
        if self._keys is None:
            self._keys = KeyRing(self.database, "session")
        claims = tokens.read(self._keys, token, stage=self.settings.stage)
        if claims is None or not self.database.run(lambda store: store.live_session(claims.family_id, claims.user_id)):
            return _NOBODY
        return {"fault": "", "principal_kind": "user", "principal_id": claims.user_id, "session_id": claims.family_id, "project_id": ""}

    def _of_key(self, key: ApiKey) -> dict[str, str]:
        found = self.database.run(lambda store: store.live_key(key.key_id))
        same = hmac.compare_digest(found.key_hash if found else _NO_KEY, key.digest)
        if found is None or not same or key.stage != self.settings.stage:
            return _NOBODY
        if found.is_use_untold:
            self.database.run(lambda store: store.note_use(key.key_id))
        return {
            "fault": "",
            "principal_kind": "api_key",
            "principal_id": key.key_id,
            "key_id": key.key_id,
            "project_id": found.project_id,
            "scopes": ",".join(found.scopes),
        }


def _token(event: Mapping[str, Any]) -> str | None:
    """The bearer token; None unless there is exactly one Authorization header with exactly one."""
    headers = event.get("headers")
    given = [str(v) for k, v in headers.items() if str(k).lower() == "authorization"] if isinstance(headers, Mapping) else []
    many = event.get("multiValueHeaders")
    for name, values in many.items() if isinstance(many, Mapping) else ():
        if str(name).lower() == "authorization" and isinstance(values, list) and len(values) > 1:
            return None
    match = _BEARER.fullmatch(given[0].strip()) if len(given) == 1 else None
    return match[1] if match else None
