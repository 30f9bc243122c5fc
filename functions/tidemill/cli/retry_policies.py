"""`tidemill retry-policies`: how often and how soon failed jobs are tried again, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tidemill.cli import connection, output
from tidemill.cli.enqueue import duration_ms

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help="List, create, set and delete retry policies."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The policy's name, as in `retry_policy` of jobs and queues")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line")]
Strategy = Annotated[str | None, typer.Option(help="fixed, linear or exponential")]
Base = Annotated[str | None, typer.Option("--base-delay", help="Before the second attempt: 500ms, 30s, 5m")]
Multiplier = Annotated[float | None, typer.Option(help="With exponential: each wait is so many times the one before")]
Longest = Annotated[str | None, typer.Option("--max-delay", help="No wait is longer: 1h")]
Attempts = Annotated[int | None, typer.Option("--max-attempts", help="Attempts in all, the first included")]
Jitter = Annotated[bool | None, typer.Option("--jitter/--no-jitter", help="Draw each wait from its upper half")]
COLUMNS = ("name", "strategy", "attempts", "first wait", "longest wait", "times", "jitter")


@app.command("list")
def list_policies(as_json: AsJson = False) -> None:
    """List the retry policies by name."""
    with connection.client() as client:
        found = client.list_retry_policies()
    if as_json:
        for one in found:
            output.print_json(one)
    elif not found:
        print("there are no retry policies: jobs and queues without one have the built-in one")
    else:
        output.print_table(COLUMNS, map(_row, found))


@app.command()
def create(
    name: Name, strategy: Strategy = None, base_delay: Base = None, multiplier: Multiplier = None, max_delay: Longest = None,
    max_attempts: Attempts = None, jitter: Jitter = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Create a retry policy. What is not said is as in the built-in one."""
    fields = _given(strategy, base_delay, multiplier, max_delay, max_attempts, jitter)
    with connection.client() as client:
        _print(client.create_retry_policy(name, **fields), as_json=as_json)


@app.command("set")
def set_fields(
    name: Name, strategy: Strategy = None, base_delay: Base = None, multiplier: Multiplier = None, max_delay: Longest = None,
    max_attempts: Attempts = None, jitter: Jitter = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Change a retry policy; what is not said stays. Jobs that name it follow from their next failure on."""
    changes = _given(strategy, base_delay, multiplier, max_delay, max_attempts, jitter)
    if not changes:
        raise typer.BadParameter("say what to change, such as --max-attempts 10; --help lists it")
    with connection.client() as client:
        _print(client.edit_retry_policy(name, **changes), as_json=as_json)


@app.command()
def delete(name: Name, as_json: AsJson = False) -> None:
    """Delete a retry policy: jobs and queues that name it fall back to the default."""
    with connection.client() as client:
        client.delete_retry_policy(name)
    output.print_json({"name": name, "deleted": True}) if as_json else print(f"{name}: deleted")


def _given(
    strategy: str | None, base: str | None, multiplier: float | None, longest: str | None, attempts: int | None, jitter: bool | None
) -> dict[str, Any]:
    given = {
        "strategy": strategy, "base_delay_ms": base and duration_ms(base), "multiplier": multiplier,
        "max_delay_ms": longest and duration_ms(longest), "max_attempts": attempts, "jitter": jitter,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}


def _print(one: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.print_json(one)
    else:
        output.print_fields(list(zip(COLUMNS, _row(one), strict=True)))


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    times = f"{one['multiplier']:g}" if one["strategy"] == "exponential" else "-"
    waits = (_wait(one["base_delay_ms"]), _wait(one["max_delay_ms"]))
    return (one["name"], one["strategy"], f"{one['max_attempts']:,}", *waits, times, "yes" if one["jitter"] else "no")


def _wait(ms: int) -> str:
    return output.span(ms / 1000) if ms % 1_000 == 0 else f"{ms} ms"
