"""tidemill: a durable job queue and scheduler on Postgres.

Import cheap names from here; everything heavy loads when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemill.version import __version__ as __version__

if TYPE_CHECKING:
    from tidemill.client import Client as Client
    from tidemill.runner import App as App
    from tidemill.runner import Context as Context

_LAZY = {
    "Client": ("tidemill.client", "Client"),
    "App": ("tidemill.runner", "App"),
    "Context": ("tidemill.runner", "Context"),
}


def __getattr__(name: str) -> Any:
    """Load `Client`, `App` and `Context` on first use, so that `import tidemill` costs nothing."""
    if name in _LAZY:
        from importlib import import_module

        module, attribute = _LAZY[name]
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
