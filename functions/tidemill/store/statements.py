"""SQL statements by name: one file each under `sql/`, so that they can be read, linted and explained as SQL."""

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "sql"


@cache
def sql(name: str) -> bytes:
    """The statement in `sql/<name>.sql`, e.g. `sql("jobs/list_by_queue")`, without its comment lines.

    Bytes, because psycopg takes those as trusted text (never splice anything into them).
    """
    lines = (FOLDER / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("--")).strip().encode()


def load_all() -> int:
    """Reads every statement now, and says how many there are: what a process runs belongs together, also when the files change under it.

    For processes that live long beside their files; a Lambda's cannot change, and reads each when it is first used.
    """
    names = [path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.sql")]
    for name in names:
        sql(name)
    return len(names)
