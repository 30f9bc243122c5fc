"""Which API or database a command talks to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill import credentials
from tidemill.config import Settings
from tidemill.domain.errors import TidemillError

if TYPE_CHECKING:
    from tidemill.client import Client
    from tidemill.client.account import Account


class NowhereToGo(TidemillError):
    """Neither the environment nor a data folder says where the API or the database is."""

    code = "nowhere_to_go"


def client() -> Client:
    """A client for the API that the environment names, else for the local instance. NowhereToGo if there is neither."""
    settings = Settings.read()
    url, api_key = settings.url, settings.api_key
    if url is None or api_key is None:
        local = credentials.read(credentials.default_folder())
        if local is not None and url in (None, local.url):  # never send the local key elsewhere
            url, api_key = local.url, api_key or local.api_key
    if url is None or api_key is None:
        missing = "TIDEMILL_API_KEY" if url else "TIDEMILL_URL and TIDEMILL_API_KEY"
        raise NowhereToGo(f"no API to talk to: set {missing}, or start one with `tidemill dev`")

    from tidemill.client import Client

    return Client(url, api_key, retries=1)


def account() -> Account:
    """A login to that API: with TIDEMILL_EMAIL and TIDEMILL_PASSWORD, else as the owner of the local instance. NowhereToGo."""
    settings = Settings.read()
    url, email, password = settings.url, settings.email, settings.password
    local = credentials.read(credentials.default_folder())
    if local is not None and url in (None, local.url) and email is None:
        url, email, password = local.url, local.admin_email, local.admin_password
    if url is None or email is None or password is None:
        missing = [
            name for name, value in (("TIDEMILL_URL", url), ("TIDEMILL_EMAIL", email), ("TIDEMILL_PASSWORD", password)) if value is None
        ]
        raise NowhereToGo(f"nobody to log in as: set {', '.join(missing)}, or start an instance with `tidemill dev`")

    from tidemill.client.account import Account

    return Account(url, email, password)


def database_url(given: str | None) -> str:
    """The database that the option or the environment names, else the local instance's. NowhereToGo if there is none."""
    found = given or Settings.read().database_url
    if found is None:
        local = credentials.read(credentials.default_folder())
        found = local.dsn if local else None
    if found is None:
        raise NowhereToGo("no database: give --dsn or set TIDEMILL_DATABASE_URL to postgresql://user@host:port/database")
    return found
