"""`python -m tidemill.local.watched MODULE ARGUMENT…` runs a module with all statements read, and ends it when who started it is gone.

Standard input is a pipe that the starter holds and never writes to: it closes when the starter ends, cleanly or not.
"""

import os
import runpy
import signal
import sys
import threading

from tidemill.store.statements import load_all


def _watch(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Start watching, put nothing in the place of standard input, read the statements, become the module."""
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_watch, args=(pipe,), name="starter-watch", daemon=True).start()
    load_all()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
