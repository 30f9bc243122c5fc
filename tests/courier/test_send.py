"""One call of a webhook: what arrives, and everything a receiver, a name or an address can do to it. Real sockets on loopback."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from harness.receiver import Receiver, status
from tidemill.courier import address
from tidemill.courier.send import send
from tidemill.domain.webhooks import Call, Report

HEADERS = {"content-type": "application/json", "webhook-id": "evt_1"}
SHORT_S = 0.3


def call(url: str, body: str = '{"é": 1}') -> Call:
    return Call("job", "token", url, HEADERS, body)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as served:
        yield served


def sent(url: str, **how: Any) -> Report:
    return send(call(url), is_local=True, **how)


def test_a_call_is_one_post_of_exactly_these_bytes(receiver: Receiver) -> None:
    assert sent(receiver.url) == Report("job", "token", 200, None)
    (got,) = receiver.got()
    assert (got.path, got.body) == ("/hooks/x?y=1", '{"é": 1}'.encode())
    assert got.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert got.headers.items() >= HEADERS.items()


@pytest.mark.parametrize(("code", "error"), [
    (204, None), (302, "it answered 302: redirects are not followed"), (400, "it answered 400"),
    (410, "it answered 410: it is gone for good"), (500, "it answered 500"), (503, "it answered 503"),
])  # fmt: skip
def test_only_a_2xx_is_an_arrival(receiver: Receiver, code: int, error: str | None) -> None:
    receiver.answers = [status(code, b"" if code == 204 else b"secret words of the receiver", location=receiver.url, retry_after="7")]
    report = sent(receiver.url)
    assert (report.status, report.error, report.has_arrived) == (code, error, error is None)
    assert report.retry_after_secs == (None if error is None else 7)
    assert len(receiver.got()) == 1, "a redirect is not followed"


@pytest.mark.parametrize(
    ("text", "secs"), [("99999", 3_600), ("-1", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("9" * 400, None), ("0", 0)]
)
def test_retry_after_is_heeded_within_bounds(receiver: Receiver, text: str, secs: int | None) -> None:
    receiver.answers = [status(429, retry_after=text)]
    assert sent(receiver.url).retry_after_secs == secs


def test_of_a_huge_answer_next_to_nothing_is_read(receiver: Receiver) -> None:
    written = threading.Event()

    def flood(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-length", str(10**9))
        handler.end_headers()
        try:
            for _ in range(1_000):
                handler.wfile.write(b"x" * 1_000_000)
        except OSError:
            written.set()
            raise

    receiver.answers = [flood]
    assert sent(receiver.url).has_arrived
    assert written.wait(20), "the connection was closed on the flood"


def test_endless_headers_are_no_answer(receiver: Receiver) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: y\r\n" % n for n in range(500)))

    receiver.answers = [endless]
    assert sent(receiver.url).error == "its answer is not HTTP"


@pytest.mark.parametrize("drip", [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"H"])
def test_a_slow_receiver_is_given_up_at_the_deadline_whatever_it_drips(drip: bytes) -> None:
    with silent(drip) as url:
        report = sent(url, deadline_s=SHORT_S)
    assert (report.status, report.error) == (None, f"no answer within {SHORT_S:g} s")


def test_nobody_there_and_one_that_hangs_up(receiver: Receiver) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    assert sent(f"http://127.0.0.1:{port}/").error == "it refused the connection"
    receiver.answers = [lambda handler: handler.connection.shutdown(socket.SHUT_RDWR)]
    assert sent(receiver.url).error in ("the connection broke", "its answer is not HTTP")


@pytest.mark.parametrize("answers", [
    ["127.0.0.1"], ["10.0.0.7"], ["169.254.169.254"], ["::1"], ["fd00::1"], ["::ffff:127.0.0.1"], ["64:ff9b::7f00:1"], ["100.64.0.1"],
    ["0.0.0.0"], ["93.184.215.14", "192.168.0.1"],
])  # fmt: skip
@pytest.mark.parametrize("is_local", [True, False])
def test_a_name_that_leads_inside_is_refused_when_it_is_called(monkeypatch: pytest.MonkeyPatch, answers: list[str], is_local: bool) -> None:
    """The url said nothing of it: the name was public when it was set, or is the attacker's own. One bad address spoils all."""
    monkeypatch.setattr(address, "looked_up", lambda host, port: answers)
    monkeypatch.setattr(address, "_first", lambda *_: pytest.fail("connected"))
    report = send(call("https://hooks.example.com/"), is_local=is_local)
    assert report.error == "the host leads to an address that is not public"


def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that answers differently the second time (rebinding) is asked only once."""
    asked, reached = [], []

    def lookup(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14" if len(asked) == 1 else "127.0.0.1", port))]

    def connect(where: tuple[str, int], **_: Any) -> socket.socket:
        reached.append(where)
        raise ConnectionRefusedError

    monkeypatch.setattr(address.socket, "getaddrinfo", lookup)
    monkeypatch.setattr(address.socket, "create_connection", connect)
    assert send(call("https://hooks.example.com/")).error == "it refused the connection"
    assert (asked, reached) == (["hooks.example.com"], [("93.184.215.14", 443)])


def test_plain_http_goes_to_this_machine_on_a_laptop_only(receiver: Receiver) -> None:
    assert send(call(receiver.url), is_local=False).error == "the url must begin with https://"
    assert send(call("http://example.com/"), is_local=True).error is not None
    assert receiver.got() == []


def test_a_certificate_must_lead_to_an_authority_and_name_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=x",
            "-addext", "subjectAltName=DNS:hooks.example.com"]  # fmt: skip
    try:
        subprocess.run(made, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl on this machine to make a certificate with")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with Receiver() as receiver:
        receiver._server.socket = context.wrap_socket(receiver._server.socket, server_side=True)
        monkeypatch.setattr(address, "looked_up", lambda host, port: ["127.0.0.1"])
        monkeypatch.setattr(address, "may_call", lambda *_, **__: True)
        trust = ssl.create_default_context(cafile=str(cert))
        good = f"https://hooks.example.com:{receiver.port}/"
        assert send(call(good), trust=trust).has_arrived
        assert receiver.got()[0].headers["host"] == f"hooks.example.com:{receiver.port}"
        assert "certificate" in (send(call(good)).error or "")
        assert "certificate" in (send(call(good.replace("hooks", "other")), trust=trust).error or "")


@contextmanager
def silent(drip: bytes) -> Iterator[str]:
    """Takes a connection, and then sends the same few bytes again and again, but never an answer."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            sock, _ = server.accept()
            with sock:
                try:
                    while not over.wait(0.02):
                        sock.sendall(drip)
                except OSError:
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        over.set()
        thread.join(10)
