"""One call: one POST to an address that was checked, within a deadline, without following or keeping what comes back."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from typing import Final
from urllib.parse import urlsplit

from tidemill.courier.address import NoWay, connected
from tidemill.domain.webhooks import ANSWER_BYTES, DEADLINE_S, GONE, RETRY_AFTER_MOST_SECS, Call, Report, fault_of_url

PORTS: Final = {"https": 443, "http": 80}


def send(call: Call, *, is_local: bool = False, deadline_s: float = DEADLINE_S, trust: ssl.SSLContext | None = None) -> Report:
    """How it went; raises nothing. `is_local`: `http` to this machine is allowed. `trust`: whose certificates count (None: the system)."""

    def told(error: str, status: int | None = None, retry_after_secs: int | None = None) -> Report:
        return Report(call.job_id, call.lease_token, status, error, retry_after_secs)

    if fault := fault_of_url(call.url, is_local=is_local):
        return told(f"the url {fault}"[:200])
    try:
        status, retry_after_secs = _posted(call, is_local, time.monotonic() + deadline_s, trust)
    except NoWay as error:
        return told(str(error))
    except TimeoutError:
        return told(f"no answer within {deadline_s:g} s")
    except ssl.SSLCertVerificationError:
        return told("its certificate does not lead to a known authority, or is for another host")
    except ssl.SSLError:
        return told("TLS could not be agreed on")
    except ConnectionRefusedError:
        return told("it refused the connection")
    except (http.client.HTTPException, ValueError):
        return told("its answer is not HTTP")
    except OSError:
        return told("the connection broke")
    if 200 <= status < 300:
        return Report(call.job_id, call.lease_token, status, None)
    why = ": redirects are not followed" if 300 <= status < 400 else ": it is gone for good" if status == GONE else ""
    return told(f"it answered {status}{why}", status, retry_after_secs)


def _posted(call: Call, is_local: bool, until: float, trust: ssl.SSLContext | None) -> tuple[int, int | None]:
    """(status, Retry-After in seconds)."""
    parts = urlsplit(call.url)
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    sock = connected(parts.scheme, host, port, is_local=is_local, until=until)
    ended = threading.Event()
    # The deadline holds for the call as a whole, however slowly the bytes come: when it is over the connection is.
    watch = threading.Timer(max(0.0, until - time.monotonic()), _cut, (sock, ended))
    watch.daemon = True
    watch.start()
    try:
        if parts.scheme == "https":
            sock = (trust or ssl.create_default_context()).wrap_socket(sock, server_hostname=host)
        status, retry_after = _answer(call, sock, parts.scheme, parts.netloc, parts.path or "/", parts.query)
    except (OSError, http.client.HTTPException):
        if ended.is_set():
            raise TimeoutError from None
        raise
    finally:
        watch.cancel()
        sock.close()
    return status, retry_after


def _answer(call: Call, sock: socket.socket, scheme: str, netloc: str, path: str, query: str) -> tuple[int, int | None]:
    connection = http.client.HTTPConnection(netloc, PORTS[scheme])
    connection.sock = sock
    connection.putrequest("POST", f"{path}?{query}" if query else path, skip_host=True, skip_accept_encoding=True)
    body = call.body.encode()
    for name, value in {"host": netloc, **call.headers, "content-length": str(len(body)), "connection": "close"}.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    response = connection.getresponse()
    with contextlib.suppress(OSError, http.client.HTTPException):
        response.read1(ANSWER_BYTES)  # so that the receiver is not cut off in the middle of a short answer; nobody looks at it
    after = response.headers.get("retry-after", "")
    return response.status, min(int(after), RETRY_AFTER_MOST_SECS) if after.isdecimal() and after.isascii() and len(after) < 10 else None


def _cut(sock: socket.socket, ended: threading.Event) -> None:
    ended.set()
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
