"""Which functions there are, what each may use, and what their processes see of the world.

The bounds are what `reserved concurrency` is on AWS: no function can take the processes, and so the database connections
(one per process), that another one needs. However many enqueues come in, heartbeats and acks have their own.
"""

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[2]
ROOT: Final = _PACKAGE.parent if (_PACKAGE.parent / "enqueue" / "handler.py").is_file() else _PACKAGE / "bundled" / "functions"
"""What Lambda unzips: the folder with one folder per function, and in a checkout the package. A wheel brings a copy (setup.py)."""

REGION: Final = "local"
ACCOUNT: Final = "000000000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function. Durations in seconds."""

    name: str
    handler: str
    timeout_s: float = 29.0
    max_processes: int = 4
    kept_short: int = 0
    """Of these processes, how many a call that may wait for jobs or changes (a long poll) never takes."""
    keeps_warm: int = 1
    """How many processes stay when nothing is asked."""
    memory_mb: int = 512
    least_log_level: str = "DEBUG"
    """What its own lines need at least to be in the log, whatever level is asked for."""

    @property
    def arn(self) -> str:
        """The name that a handler sees in its context."""
        return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:tidemill-{self.name}"


def functions(handler_of: Mapping[str, str] | None = None) -> dict[str, Function]:
    """All functions by name. `handler_of` puts others in the place of the deployed handlers."""
    specs = [
        Function(name="authorizer", handler="authorizer.handler.handler", timeout_s=10, max_processes=2),
        Function(name="enqueue", handler="enqueue.handler.handler", max_processes=8),
        Function(name="claims", handler="claims.handler.handler", max_processes=16, kept_short=6),
        Function(name="admin", handler="admin.handler.handler", max_processes=10, kept_short=4),
        Function(name="scheduler", handler="scheduler.handler.handler", timeout_s=60, max_processes=2, least_log_level="WARN"),
    ]
    named = {spec.name: spec for spec in specs}
    for name, handler in (handler_of or {}).items():
        named[name] = Function(**{**{f: getattr(named[name], f) for f in Function.__slots__}, "handler": handler})
    return named


def environment(function: Function, runtime_api: str, settings: Mapping[str, str]) -> dict[str, str]:
    """All that a function's process sees: what Lambda sets, and the `TIDEMILL_…` settings. Nothing of ours leaks in."""
    version = ".".join(platform.python_version_tuple()[:2])
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "PYTHONPATH": str(ROOT),
        "PYTHONUTF8": "1",
        "AWS_LAMBDA_RUNTIME_API": runtime_api,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{version}",
        "AWS_LAMBDA_FUNCTION_NAME": f"tidemill-{function.name}",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/tidemill-{function.name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "local",
        "AWS_LAMBDA_LOG_FORMAT": "JSON",
        "AWS_LAMBDA_LOG_LEVEL": _level(function, settings.get("TIDEMILL_LOG_LEVEL", "info")),
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "LAMBDA_TASK_ROOT": str(ROOT),
        "_HANDLER": function.handler,
        **settings,
    }


def _level(function: Function, wanted: str) -> str:
    """In Lambda's words. A tick a second that did nothing is worth no line, unless everything is to be told."""
    level = {"debug": "DEBUG", "info": "INFO", "warning": "WARN", "error": "ERROR"}[wanted]
    return level if level == "DEBUG" else max(level, function.least_log_level, key=["DEBUG", "INFO", "WARN", "ERROR"].index)
