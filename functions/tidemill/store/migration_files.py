"""The migrations folder, read and checked: what there is to apply, and whether what was applied is still the same.

MigrationError
├── MigrationFolderInvalid   missing, a name that does not fit, a version twice
├── MigrationEdited          an applied file says something else now
├── MigrationOutOfOrder      a file appeared below a version that was already applied
└── MigrationBlocked         no lock within the time given (raised by `migrate`)
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tidemill.domain.errors import TidemillError

_NAME = re.compile(r"(?P<version>\d{4})_(?P<name>[a-z0-9]+(?:_[a-z0-9]+)+)\.sql")
_OUTSIDE = "-- tidemill: no-transaction"
_TOKEN = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|(\$\w*\$).*?\1|;|[^-/'\"$;]+|.", re.DOTALL)


class MigrationError(TidemillError):
    """Base of what the migrator raises; `code` is stable."""

    code = "migration_failed"


class MigrationFolderInvalid(MigrationError):
    """The folder of migrations cannot be used as it is."""

    code = "migration_folder_invalid"


class MigrationEdited(MigrationError):
    """A migration that was applied has been changed since."""

    code = "migration_edited"


class MigrationOutOfOrder(MigrationError):
    """A migration has a lower version than one that was applied already."""

    code = "migration_out_of_order"


class MigrationBlocked(MigrationError):
    """Another migrator, or traffic on a table, held what was needed for longer than the time given."""

    code = "migration_blocked"


@dataclass(frozen=True)
class Migration:
    """One file `NNNN_verb_noun.sql`. `checksum` is the sha256 (hex) of its text with Unix line ends."""

    version: int
    name: str
    checksum: str
    text: str = field(repr=False)

    @property
    def in_transaction(self) -> bool:
        """False for files that start with `-- tidemill: no-transaction`: each statement commits by itself.

        Such a file may be run again after a crash half-way, so each statement must bear a repeat
        (`drop index concurrently if exists …; create index concurrently …`).
        """
        return not self.text.startswith(_OUTSIDE)

    def statements(self) -> list[str]:
        """The file's statements, split at semicolons outside quotes, dollar quotes and comments."""
        found, current = [], ""
        for token in _TOKEN.finditer(self.text):
            if token[0] == ";":
                found.append(current.strip())
                current = ""
            elif not token[0].startswith(("--", "/*")):
                current += token[0]
        return [statement for statement in (*found, current.strip()) if statement]


def default_folder() -> Path:
    """Where `migrations/` lies: beside `functions/` in the repository, beside the package in Lambda, in it in a wheel (setup.py)."""
    package = Path(__file__).resolve().parents[1]
    for root in (package / "bundled", package.parents[1], package.parents[0]):
        if (root / "migrations" / "schema.sql").is_file() or any((root / "migrations").glob("0001_*.sql")):
            return root / "migrations"
    raise MigrationFolderInvalid(f"no folder migrations/ beside {package.parents[0]} or in {package}; give one")


def read_folder(folder: Path) -> list[Migration]:
    """All migrations of the folder by version. Other files (schema.sql, notes) are no migrations if they start with a letter."""
    found: dict[int, Migration] = {}
    for path in sorted(folder.glob("[0-9]*.sql")):
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise MigrationFolderInvalid(f"{path.name}: a migration is called NNNN_verb_noun.sql, in lower case")
        text = path.read_bytes().decode("utf-8").replace("\r\n", "\n")
        version = int(match["version"])
        if version in found:
            raise MigrationFolderInvalid(f"{path.name}: version {version} is taken by {found[version].name}.sql; renumber one")
        found[version] = Migration(version, path.stem, hashlib.sha256(text.encode()).hexdigest(), text)
    if not found:
        raise MigrationFolderInvalid(f"{folder}: holds no migration")
    return list(found.values())


def pending(migrations: list[Migration], applied: Iterable[tuple[int, str, str]]) -> list[Migration]:
    """What is left to apply. `applied`: (version, name, checksum) rows; versions that this code does not know are newer code's.

    Raises MigrationEdited or MigrationOutOfOrder.
    """
    checksums = {version: checksum for version, _, checksum in applied}
    highest = max(checksums, default=0)
    left = []
    for migration in migrations:
        recorded = checksums.get(migration.version)
        if recorded is None and migration.version < highest:
            raise MigrationOutOfOrder(f"{migration.name}.sql is not applied but version {highest} is; give it a number above {highest}")
        if recorded is None:
            left.append(migration)
        elif recorded != migration.checksum:
            raise MigrationEdited(
                f"{migration.name}.sql was changed after it was applied (sha256 {recorded[:12]}… then, {migration.checksum[:12]}… now); "
                "restore it and write a new migration"
            )
    return left
