"""Commands in processes of their own, without the start of an interpreter for each: one process has loaded what they need, and forks.

What a command is given (arguments, surroundings, folder, standard streams) and its exit code are its own, as with `python -m tidemill.cli`.
Only the libraries are there already, and none of our modules: each command still loads what is its own.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

LOADED = (
    "typer", "typer.main", "typer._adapters", "rich.console", "rich.table", "rich.markdown", "rich.panel", "rich.columns", "rich.traceback",
    "httpx", "httpcore", "certifi", "encodings.idna", "pydantic", "pydantic.main", "psycopg",
)  # fmt: skip
IF_THERE = ("h2.connection",)  # of the group infra; where it is, httpcore loads it
ENOUGH = 1 << 20
TESTS = Path(__file__).resolve().parents[1]


def command(
    arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path | None, text: str | None, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Runs `tidemill ARGUMENTS` to its end; `text` is its standard input (None: nothing)."""
    order = {"arguments": list(arguments), "env": dict(env), "cwd": str(cwd or Path.cwd())}
    ours, theirs = socket.socketpair()
    with contextlib.ExitStack() as open_files:
        given, out, err = (open_files.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in range(3))
        given.write(text or "")
        given.seek(0)
        open_files.enter_context(ours).settimeout(timeout_s)
        with theirs:
            socket.send_fds(_seed(), [json.dumps(order).encode()], [given.fileno(), out.fileno(), err.fileno(), theirs.fileno()])
        pid = int(ours.recv(20))
        try:
            code = ours.recv(20)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(arguments), timeout_s) from None
        assert code, f"tidemill {' '.join(arguments)} ended without an exit code"
        said = [(file.seek(0), file.read())[1] for file in (out, err)]
    return subprocess.CompletedProcess(list(arguments), int(code), *said)


@cache
def _seed() -> socket.socket:
    """The way to this test process' seed; it ends when the other end does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    env = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMILL_")}
    env["PYTHONPATH"] = os.pathsep.join([str(TESTS.parent / "functions"), str(TESTS)])
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.seed", str(theirs.fileno())], env=env, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _serve(orders: socket.socket) -> None:
    for name in LOADED:
        import_module(name)
    for name in IF_THERE:
        with contextlib.suppress(ModuleNotFoundError):
            import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, _bury)
    while True:
        order, descriptors, _, _ = socket.recv_fds(orders, ENOUGH, 4)
        if not order:
            return
        if os.fork() == 0:
            orders.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _become(json.loads(order), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _bury(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _become(order: dict[str, Any], descriptors: list[int]) -> None:
    *streams, told = descriptors
    os.write(told, str(os.getpid()).encode().ljust(20))
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    sys.argv[1:] = order["arguments"]
    code = 1
    try:
        runpy.run_module("tidemill.cli", run_name="__main__")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(told, str(code).encode())
    os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
