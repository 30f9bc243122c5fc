"""Settings of one process, read once at its edge from variables called `TIDEMILL_…` and handed inwards.

A new setting is a field here with its parser; its variable is the field's name in capitals.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tidemill.domain.errors import Fault, Invalid

PREFIX = "TIDEMILL_"
FOREIGN_PREFIX = "TIDEMILL_TEST_"
FOREIGN_NAMES = frozenset({"TIDEMILL_PYTHON", "TIDEMILL_SETUP_LOCKED"})
"""Names that tools of this project read: no settings, and no mistakes either."""


class SettingsInvalid(Invalid):
    """The environment does not make settings; `faults` lists everything that is wrong with it. Values are never in the text."""

    code = "settings_invalid"

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__(faults, "; ".join(f"{fault.loc[0]}: {fault.msg}" for fault in faults))


def _matching(pattern: str, meaning: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(meaning)
        return text

    return parse


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return text.lower()

    return parse


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if re.fullmatch(r"-?[0-9]{1,18}", text) is None or not low <= int(text) <= high:
            raise ValueError(f"a whole number from {low:,} to {high:,}")
        return int(text)

    return parse


def _file(text: str) -> Path:
    path = Path(text).expanduser()
    if not path.is_file():
        raise ValueError("a file that exists")
    return path


def _setting(parse: Callable[[str], object], default: object, *, is_secret: bool = False) -> Any:
    return field(default=default, repr=not is_secret, metadata={"parse": parse})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What differs between a laptop, a test and a stage on AWS. Secrets are not in its repr."""

    stage: str = _setting(_matching(r"[a-z][a-z0-9]{0,15}", "1 to 16 of a-z and 0-9, a letter first"), "local")
    """Also the second part of every API key: `tm_<stage>_…`."""

    database_url: str | None = _setting(
        _matching(r"(postgres|postgresql)://\S+", "a URL postgresql://user@host:port/database"), None, is_secret=True
    )
    database_auth: str = _setting(_one_of("password", "iam"), "password")
    """`iam`: a token signed with the role's credentials takes the place of the URL's password."""

    database_ca_file: Path | None = _setting(_file, None)  # noqa: RUF009 - a dataclass field, as above
    """Certificates that the database's must lead to; given = TLS with `verify-full`."""

    url: str | None = _setting(_matching(r"https?://[^\s/]+\S*", "a URL https://host or http://host:port"), None)
    """Where the HTTP API is, for the client, the CLI and workers outside the VPC."""

    api_key: str | None = _setting(_matching(r"tm_[a-z0-9]+_\w+_\S+", "an API key tm_<stage>_<id>_<secret>"), None, is_secret=True)

    email: str | None = _setting(_matching(r"[^\s@]+@[^\s@]+", "an email address"), None)
    password: str | None = _setting(_matching(r".{1,200}", "1 to 200 characters"), None, is_secret=True)
    """Who logs in, for the commands that a person may give and a key may not (`tidemill accounts`)."""

    log_level: str = _setting(_one_of("debug", "info", "warning", "error"), "info")

    trusted_proxies: int = _setting(_integer(0, 5), 0)
    """How many proxies of ours stand before the gateway (CloudFront: 1), so that the caller's address is found behind them."""

    origin_digest: str | None = _setting(_matching(r"[0-9a-f]{64}(,[0-9a-f]{64})?", "64 of 0-9 and a-f, once or twice with a comma"), None)
    """SHA-256 of the header that our front door adds (of two, while one takes over); given = no request is let in without it."""

    protection_minutes: int = _setting(_integer(1, 2_880), 120)
    """On ECS: for how long a worker that holds leases is spared from scale-in without a word from it."""

    tick_budget_ms: int = _setting(_integer(0, 840_000), 50_000)
    """For how long one scheduler run repeats its passes while there is a backlog; 0 = one pass."""

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """The settings in these variables (None = the process's own). An empty variable is one that is not set.

        Raises SettingsInvalid with all faults at once, unknown `TIDEMILL_` names among them.
        """
        environment = os.environ if environment is None else environment
        given = {name: text for name, text in environment.items() if name.upper().startswith(PREFIX) and text.strip()}
        parsers = {PREFIX + entry.name.upper(): (entry.name, entry.metadata["parse"]) for entry in fields(cls)}
        values, faults = {}, []
        for name, text in sorted(given.items()):
            if name in parsers:
                attribute, parse = parsers[name]
                try:
                    values[attribute] = parse(text.strip())
                except ValueError as error:
                    faults.append(Fault((name,), f"must be {error}"))
            elif name not in FOREIGN_NAMES and not name.startswith(FOREIGN_PREFIX):
                faults.append(Fault((name,), _unknown(name, list(parsers))))
        if faults:
            raise SettingsInvalid(faults)
        return cls(**values)

    def needs_database(self) -> str:
        """The database URL of a process that cannot do without one; SettingsInvalid when it is not set."""
        if self.database_url is None:
            raise SettingsInvalid([Fault((PREFIX + "DATABASE_URL",), "is not set; give postgresql://user@host:port/database")])
        return self.database_url


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.6)
    return f"is no setting; did you mean {near[0]}?" if near else f"is no setting; there are {', '.join(sorted(known))}"
