"""`python -m harness.migrator URL FOLDER`: a migrator as a process of its own; prints the versions it applied as JSON."""

import json
import sys
from pathlib import Path

from tidemill.store.migrate import migrate

if __name__ == "__main__":
    print(json.dumps([migration.version for migration in migrate(sys.argv[1], folder=Path(sys.argv[2]))]))
