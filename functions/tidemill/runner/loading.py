"""Finds the app that a path names."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path

from tidemill.domain.errors import TidemillError
from tidemill.runner.app import App, AppInvalid


def load_app(path: str) -> App:
    """The App called `name` in `module` for `module:name` (name defaults to `app`). AppInvalid says in one line what is wrong.

    The working directory is searched as well, as with `python -m`.
    """
    module_name, _, name = path.partition(":")
    name = name or "app"
    if not all(part.isidentifier() for part in module_name.split(".")) or not name.isidentifier():
        raise AppInvalid(f"{path[:200]!r} is no module:app, such as myapp.jobs:app")
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise AppInvalid(f"there is no module {error.name!r} here or on the Python path; is {path!r} written right?") from error
        raise AppInvalid(f"module {module_name!r} needs {error.name!r}, which is not installed") from error
    except TidemillError as error:
        raise AppInvalid(f"module {module_name!r}: {error.detail}") from error
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise AppInvalid(f"module {module_name!r} fails to load: {type(error).__name__} at {place.filename}:{place.lineno}") from error
    app = getattr(module, name, None)
    if not isinstance(app, App):
        known = sorted(key for key, value in vars(module).items() if isinstance(value, App))
        hint = f"; it has {', '.join(f'{module_name}:{key}' for key in known)}" if known else "; it needs `app = tidemill.App()`"
        raise AppInvalid(f"module {module_name!r} has no App called {name!r}{hint}")
    return app
