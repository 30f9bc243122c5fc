"""`tidemill operations` as a person and as a script use it: plan, a question, progress, undo."""

from __future__ import annotations

import json
import os
import pty
import re
import sys
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import pytest

from harness import dev as harness
from harness.dev import Dev

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def dev(own_project: Dev) -> Dev:
    return own_project


@pytest.fixture
def tidemill(dev: Dev) -> Run:
    def run(*arguments: str, **settings: str) -> CompletedProcess[str]:
        return harness.cli(*arguments, TIDEMILL_URL=dev.url, TIDEMILL_API_KEY=dev.about["api_key"], **settings)

    return run


def at_a_terminal(dev: Dev, *arguments: str, answer: bytes) -> tuple[int, str]:
    """Exit code and screen of a command at a terminal, where the question is answered."""
    environment = harness.environment(TIDEMILL_URL=dev.url, TIDEMILL_API_KEY=dev.about["api_key"], TERM="dumb")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(sys.executable, [*harness.COMMAND, *arguments], environment)
    screen, answered = b"", False
    while True:
        try:
            chunk = os.read(terminal, 4_096)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        screen += chunk
        if b"[y/N]" in screen and not answered:
            os.write(terminal, answer)
            answered = True
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), screen.decode()


def planned(tidemill: Run, *arguments: str) -> dict[str, Any]:
    done = tidemill("operations", "plan", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_plan_question_apply_undo(dev: Dev, tidemill: Run) -> None:
    tag = "cli-bulk"
    for _ in range(3):
        tidemill("enqueue", "cli.bulk", "--tag", tag, "--delay", "1h")
    shown = tidemill("operations", "plan", "cancel", "--tag", tag)
    assert shown.stdout.startswith(f"Cancels 3 jobs (tag {tag}); those that run are asked to stop.\n"), shown.stderr
    operation_id = re.findall(r"tidemill operations apply (\S+)", shown.stdout)[0]

    refused = tidemill("operations", "apply", operation_id)
    assert (refused.returncode, refused.stderr) == (2, "tidemill: nobody is there to be asked: give --yes\n")
    code, screen = at_a_terminal(dev, "operations", "apply", operation_id, answer=b"n\n")
    assert (code, "Cancels 3 jobs" in screen, "nothing was done" in screen) == (1, True, True)
    assert json.loads(tidemill("operations", "show", operation_id, "--json").stdout)["status"] == "planned"

    code, screen = at_a_terminal(dev, "operations", "apply", operation_id, answer=b"y\n")
    assert (code, "completed: 3 cancelled or asked to stop" in screen) == (0, True), screen
    assert operation_id in tidemill("operations", "list").stdout
    undone = tidemill("operations", "undo", operation_id, "--yes")
    assert undone.stdout == f"{operation_id}  undone: 3 put back\n", undone.stderr
    assert "3 put back" in tidemill("operations", "show", operation_id).stdout
    assert tidemill("jobs", "list", "--tag", tag, "--state", "scheduled").stdout.count("scheduled") == 3


def test_what_is_refused_is_one_line_and_exit_1(tidemill: Run) -> None:
    for arguments in (("plan", "delete"), ("plan", "explode", "--queue", "default"), ("plan", "retry", "--state", "queued"), ("show", "x")):
        done = tidemill("operations", *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), arguments
    plan = planned(tidemill, "promote", "--type", "cli.nobody")
    assert tidemill("operations", "abort", plan["id"]).stdout == f"{plan['id']}  aborted: 0 let go\n"
    again = tidemill("operations", "apply", plan["id"], "--yes")
    assert (again.returncode, "aborted operation cannot be applied" in again.stderr) == (1, True)
