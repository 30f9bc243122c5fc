"""Error webhooks: which addresses may be called, what a call says, how it is signed, and when it is tried again.

The signature is that of Standard Webhooks 1.0 (standardwebhooks.com): HMAC-SHA256 over `id.timestamp.body`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote, urlsplit

DEAD_LETTER: Final = "job.dead_letter"
QUARANTINED: Final = "fingerprint.quarantined"
BROKEN_SCHEDULE: Final = "schedule.broken"
TEST: Final = "webhook.test"
EVENTS: Final = (DEAD_LETTER, QUARANTINED, BROKEN_SCHEDULE)

SYSTEM_PROJECT: Final = "00000000-0000-7000-8000-000000000001"
"""tidemill.system_project() of migration 0018: where the calls' jobs live."""
QUEUE: Final = "webhooks"
JOB_TYPE: Final = "tidemill.webhook"
LOCAL_STAGE: Final = "local"

URL_CHARS: Final = (8, 2_048)
QUEUES: Final = (1, 50)
SECRET_BYTES: Final = 32
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - what every secret begins with
SECRET_OVERLAP: Final = timedelta(days=1)
"""For how long a secret that was rotated still signs, beside the new one."""

AGAIN_AFTER: Final = timedelta(minutes=1)
"""A kind of thing that was told is told again after this, with the number of times it happened since."""
FORGOTTEN_AFTER: Final = timedelta(hours=1)
"""After this without another one it is new again."""
PACE: Final = timedelta(seconds=3)
PACE_FAILING: Final = timedelta(minutes=5)
THINGS: Final = 50
"""What one call names; of at most MOST it tells how many more there are."""
MOST: Final = 1_000

RETRY_POLICY: Final = {
    "strategy": "exponential", "base_delay_ms": 5_000, "multiplier": 3, "max_delay_ms": 600_000, "max_attempts": 8, "jitter": True,
}  # fmt: skip
CALLS_AT_ONCE: Final = 2
LEASE_MS: Final = 60_000
DEADLINE_S: Final = 10.0
"""Of one call, from looking up the name to the answer's first bytes."""
ANSWER_BYTES: Final = 4_096
RETRY_AFTER_MOST_SECS: Final = 3_600
GONE: Final = 410

_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Status = Literal["active", "failing", "paused"]


def status(*, is_paused: bool, is_failing: bool) -> Status:
    """How a webhook stands, in a word. A paused one is called by nobody, whatever it did before."""
    return "paused" if is_paused else "failing" if is_failing else "active"


class Told(NamedTuple):
    """One kind of thing that is told now: `times` since it was told last. `about`: what it is, by the names of the event's fields."""

    key: str
    times: int
    is_new: bool
    first_at: datetime
    last_at: datetime
    about: Mapping[str, Any]


class Report(NamedTuple):
    """How a call went: the answer's status (None: there was none), what went wrong (None: nothing), and how long to wait if it said so."""

    job_id: str
    lease_token: str
    status: int | None
    error: str | None
    retry_after_secs: int | None = None

    @property
    def has_arrived(self) -> bool:
        """The receiver took it."""
        return self.error is None and self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook as a call needs it. `secrets`: those that sign now, the newest first."""

    project_id: str
    url: str
    is_paused: bool
    secrets: Sequence[bytes]

    def __repr__(self) -> str:
        return f"Hook({self.project_id})"


class Call(NamedTuple):
    """A call that is ready to be sent."""

    job_id: str
    lease_token: str
    url: str
    headers: Mapping[str, str]
    body: str


def fault_of_url(url: str, *, is_local: bool) -> str | None:
    """Why this address cannot be called; None if it can. `is_local`: on a laptop, where `http` to itself is allowed."""
    if not URL_CHARS[0] <= len(url) <= URL_CHARS[1]:
        return f"has {len(url)} characters, outside {URL_CHARS[0]} to {URL_CHARS[1]:,}"
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return "must be printable ASCII without blanks: write the host as xn--…, anything else as %xx"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "must be a URL https://host/path"
    if parts.username is not None or parts.password is not None:
        return "must have no user and password in it: the signature says who is calling"
    if parts.fragment or port == 0:
        return "must have no fragment, and a port from 1 to 65,535"
    literal = _literal(host)
    if literal is None and not _HOST.fullmatch(host):
        return "must be a URL https://host/path"
    loops = host == "localhost" or (literal is not None and literal.is_loopback)
    if parts.scheme == "http" and is_local and loops:
        return None
    if parts.scheme != "https":
        return "must begin with https://" + (", or with http:// for this machine itself" if is_local else "")
    if loops or (literal is not None and not is_public(literal)):
        return "must lead to a public address: this one is private, of this machine or of a link"
    return None


def is_public(address: Address) -> bool:
    """Is it an address of the public internet? Private, loopback, link-local (metadata services too) and reserved ones are not."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None or address.is_site_local or address.scope_id is not None:
            return False
    if address.is_multicast or address.is_reserved or address.is_unspecified or address.is_link_local or address.is_loopback:
        return False
    return address.is_global and not address.is_private


def may_call(addresses: Iterable[str], *, scheme: str, is_local: bool) -> bool:
    """May a connection go to these addresses, all that a host's name led to? `http`: only to this machine, on a laptop."""
    found = [ipaddress.ip_address(address) for address in addresses]
    if not found:
        return False
    if scheme == "http":
        return is_local and all(address.is_loopback for address in found)
    return all(is_public(address) for address in found)


def shown_url(url: str) -> str:
    """The address without its path, which may be a secret between the receiver and its owner."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/…" if parts.path.strip("/") or parts.query else url


def secret_text(secret: bytes) -> str:
    """A secret as its owner gets it, once."""
    return SECRET_PREFIX + base64.b64encode(secret).decode()


def event_body(event: str, project_id: str, at: datetime, told: Sequence[Told], more: int, more_count: int) -> dict[str, Any]:
    """What a call says. Never a payload, and of messages only the masked ones."""
    items = [
        {
            **one.about, "count": one.times, "is_new": one.is_new, "first_at": _text(one.first_at), "last_at": _text(one.last_at),
            "links": _links(event, one.about),
        }
        for one in told
    ]  # fmt: skip
    data = {"items": items, "more": {"items": more, "count": more_count}}
    return {"type": event, "timestamp": _text(at), "project_id": project_id, "data": data}


def call_of(hook: Hook, job_id: str, lease_token: str, body: str, *, attempt: int, at: datetime) -> Call:
    """The call, signed. Its id is the same in every attempt; the time is the attempt's."""
    seconds, call_id = str(int(at.timestamp())), f"evt_{job_id}"
    headers = {
        "content-type": "application/json", "user-agent": "tidemill", "webhook-id": call_id, "webhook-timestamp": seconds,
        "webhook-signature": signatures(hook.secrets, call_id, seconds, body), "tidemill-attempt": str(attempt),
    }  # fmt: skip
    return Call(job_id, lease_token, hook.url, headers, body)


def signatures(secrets: Sequence[bytes], call_id: str, seconds: str, body: str) -> str:
    """`v1,…` by each secret, with blanks between."""
    content = f"{call_id}.{seconds}.{body}".encode()
    return " ".join("v1," + base64.b64encode(hmac.digest(secret, content, hashlib.sha256)).decode() for secret in secrets)


def _links(event: str, about: Mapping[str, Any]) -> dict[str, str]:
    """Paths of the API behind the event: the receiver knows the host."""
    links = {}
    if event == DEAD_LETTER:
        links["dead_letters"] = f"/v1/dead-letters?error_group={about['error_group']}"
        if job := about.get("job"):
            links["job"] = f"/v1/jobs/{job['id']}"
    elif event == QUARANTINED:
        links["quarantine"] = f"/v1/quarantine/{about['fingerprint']}"
    elif event == BROKEN_SCHEDULE:
        links["schedule"] = f"/v1/schedules/{quote(str(about['schedule']), safe='')}"
    return links


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _text(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
