"""Rules on the text of the sources that no linter knows: sizes, SQL in files, session state, what must not be committed."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "functions" / "tidemill"
SQL = PACKAGE / "store" / "sql"
LONGEST_MODULE = 300
LONGEST_SCRIPT = 60

# What outlives a transaction. `set_config(…, true)` ends with it; a plain `set` can only begin a statement.
SESSION_STATE = re.compile(
    r"\A\s*(set|reset|(un)?listen|discard|prepare|deallocate|load)\s"
    r"|\bcreate\s+(local\s+|global\s+)?temp(orary)?\s|\binto\s+temp(orary)?\s|\bpg_(try_)?advisory_(un)?lock|\bset_config\([^)]*,\s*false\s*\)",
    re.IGNORECASE,
)
# A lease's deadline, progress and wishes are no state; that it exists, and that it was started, is.
MOVES = re.compile(
    r"\b(insert\s+into|delete\s+from|merge\s+into|truncate(\s+table)?)\s+(only\s+)?tidemill\.(job_queue_entries|job_leases)\b"
    r"|\bupdate\s+(only\s+)?tidemill\.job_queue_entries\b"
    r"|\bupdate\s+(only\s+)?tidemill\.job_leases\b(?:(?!\bwhere\b).)*?\bset\b(?:(?!\bwhere\b).)*?\bstarted_at\s*="
    r"|\bupdate\s+(only\s+)?tidemill\.jobs\b(?:(?!\bwhere\b).)*?\bset\b(?:(?!\bwhere\b).)*?\bphase\s*=",
    re.IGNORECASE | re.DOTALL,
)
# Written in two halves, so that this file does not hold what it forbids.
HOSTS = re.compile(
    "|".join(
        [
            "py" + "pi" + r"\.org",
            "python" + "hosted",
            "npm" + "js\\.(org|com)",
            "yarn" + "pkg\\.com",
            "/work" + "/(main|shared)",
            "artifact" + "ory",
        ]
    )
)


def tracked(*suffixes: str) -> list[Path]:
    """Files that git knows or would add, so that a build folder is not looked at."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    paths = (ROOT / name for name in names if name)
    return sorted(path for path in paths if path.is_file() and (not suffixes or path.suffix in suffixes))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


def without_comments(text: str) -> str:
    return re.sub(r"--[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def strings_of(path: Path) -> list[tuple[int, str]]:
    """String constants of a module that are no docstrings, with their line."""
    tree = tree_of(path)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    ]


# A linter's or the type checker's word that does not count on this line, and what is behind it. In two halves for the same reason.
MARK = re.compile("# (no" + r"qa|type: ?ig" + r"nore)\b(.*)")
REASONED = re.compile(r"(: [A-Z0-9]+(, [A-Z0-9]+)* - |\[[a-z-]+(, [a-z-]+)*\]  # )\S.*")
CODE = ("benchmarks/", "functions/", "infra/", "tests/")
PACKAGE_FILES = [path for path in tracked(".py") if path.is_relative_to(ROOT / "functions")]
SQL_FILES = [path for path in tracked(".sql") if path.is_relative_to(SQL)]
OWN_SESSION = ("functions/runner/", "functions/tidemill/runner/", "functions/tidemill/local/")


def test_modules_are_short() -> None:
    """Of the package, the infrastructure, the benchmarks, the page and what tests stand on. A file of tests may be longer: it is a list."""
    code = [path for path in tracked(".py", ".ts", ".tsx", ".css") if not re.match(r"test_|.*\.test\.ts", path.name)]
    assert [named(path) for path in code if len(text_of(path).splitlines()) >= LONGEST_MODULE] == []


def test_every_mark_that_silences_a_linter_gives_its_reason() -> None:
    marks = [
        f"{named(path)}:{number}: {mark[0]}"
        for path in tracked(".py")
        if named(path).startswith(CODE)
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if (mark := MARK.search(line)) and not REASONED.fullmatch(mark[2])
    ]
    assert marks == []


@pytest.mark.parametrize(
    ("behind", "has_one"), [(": S310", False), (": S310 - ours", True), ("[misc]", False), ("[misc]  # so", True), ("", False)]
)
def test_a_marks_reason_is_recognised(behind: str, has_one: bool) -> None:
    assert bool(REASONED.fullmatch(behind)) is has_one


def test_scripts_are_short_and_can_be_run() -> None:
    for path in sorted((ROOT / "scripts").iterdir()):
        assert len(text_of(path).splitlines()) < LONGEST_SCRIPT, named(path)
        assert path.suffix == "", named(path)
        assert path.stat().st_mode & 0o111, named(path)


def test_sql_files_have_a_header_and_one_statement() -> None:
    for path in SQL_FILES:
        text = text_of(path)
        assert text.startswith("-- "), f"{named(path)} starts with a comment: purpose, parameters, rows, lock order"
        assert without_comments(text).strip().rstrip(";").count(";") == 0, named(path)
        beside = "".join(re.findall(r"(?<=\S)[^\n]*?(--[^\n]*)", text))
        assert "%" not in beside, f"{named(path)}: a comment beside code keeps its % and psycopg reads it"


def test_sql_files_use_named_parameters() -> None:
    for path in SQL_FILES:
        body = without_comments(text_of(path))
        assert not re.search(r"%s\b|\$\d", body), named(path)
        for placeholder in re.finditer(r"%(.)", body):
            assert placeholder[1] in "(%", f"{named(path)}: bare % before {body[placeholder.end() :][:20]!r}: write %%"


def test_only_transitions_set_the_state_of_a_job() -> None:
    others = [path for path in SQL_FILES if path.parent.name != "transitions"]
    assert [named(path) for path in others if MOVES.search(without_comments(text_of(path)))] == []


def test_no_session_state_where_a_pooler_may_stand_between() -> None:
    found = [named(path) for path in SQL_FILES if SESSION_STATE.search(without_comments(text_of(path)))]
    for path in PACKAGE_FILES:
        if not named(path).startswith(OWN_SESSION):  # those own their connections
            lines = [line for line, text in strings_of(path) if SESSION_STATE.search(text) and text == text.lower()]
            found += [f"{named(path)}:{line}" for line in lines]
    assert found == []


def test_store_splices_nothing_into_sql() -> None:
    """No f-string, `%`, `+`, `.format` or Template reaches a cursor: statements come from files."""
    found = []
    for path in PACKAGE_FILES:
        if not path.is_relative_to(PACKAGE / "store"):
            continue
        for node in ast.walk(tree_of(path)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            if node.func.attr in ("execute", "executemany", "copy", "stream"):
                first = node.args[0]
                if isinstance(first, ast.JoinedStr | ast.BinOp) or (isinstance(first, ast.Call) and _formats(first)):
                    found.append(f"{named(path)}:{node.lineno}")
    assert found == []


def test_no_sql_in_python() -> None:
    statement = re.compile(
        r"^\s*(with\s+\w+\s+as\b|select\s.+\sfrom\b|insert\s+into\b|update\s+\w+(\.\w+)?\s+set\b|delete\s+from\b)",
        re.IGNORECASE | re.DOTALL,
    )
    others = [path for path in PACKAGE_FILES if not named(path).startswith(OWN_SESSION)]
    assert [f"{named(path)}:{line}" for path in others for line, text in strings_of(path) if statement.search(text)] == []


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    for path in tracked():
        found = HOSTS.search(path.read_bytes().decode("utf-8", errors="ignore"))
        assert found is None, f"{named(path)}: {found[0]}" if found else ""


def test_lock_files_hold_names_versions_and_hashes_only() -> None:
    line = re.compile(r"([a-z0-9._-]+==[^ ]+( ; [^\\]+)?( \\)?|    --hash=sha256:[0-9a-f]{64}( \\)?)")
    for path in (ROOT / "requirements").glob("*.lock"):
        wrong = [text for text in path.read_text().splitlines() if not line.fullmatch(text)]
        assert not wrong, f"{named(path)}: {wrong[:3]}"


def test_lock_files_agree() -> None:
    pins = {
        path.stem: set(re.findall(r"^[^ ]+==[^ ]+(?: ; [^\\]+)?", path.read_text(), re.MULTILINE))
        for path in (ROOT / "requirements").glob("*.lock")
    }
    assert pins["runtime"] <= pins["dev"]
    for name, pinned in pins.items():
        versions = {pin.partition("==")[0]: pin.partition(" ")[0] for pin in pins["dev"]}
        apart = {pin for pin in pinned if pin.partition(" ")[0] != versions.get(pin.partition("==")[0], pin.partition(" ")[0])}
        assert not apart, f"{name}.lock and dev.lock go into one environment and disagree"


def _formats(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "format"


@pytest.mark.parametrize(
    "statement",
    [
        "set statement_timeout = 5", "listen doorbell", "create temp table t (id int)", "select pg_advisory_lock(1)",
        "select pg_try_advisory_lock(1)", "select set_config('timezone', 'UTC', false)",
    ],
)  # fmt: skip
def test_session_state_is_recognised(statement: str) -> None:
    assert SESSION_STATE.search(statement)


@pytest.mark.parametrize(
    "statement", ["update tidemill.jobs set x = 1", "select pg_advisory_xact_lock(1)", "select set_config('a', 'b', true)"]
)
def test_state_of_a_transaction_is_allowed(statement: str) -> None:
    assert not SESSION_STATE.search(statement)


@pytest.mark.parametrize(
    ("statement", "moves"),
    [
        ("update tidemill.jobs j set updated_at = now(), phase = 'cancelled' where id = 1", True),
        ("update tidemill.jobs set updated_at = now() where phase = 'waiting'", False),
        ("delete from tidemill.job_leases where job_id = 1", True),
        ("update tidemill.job_leases set lease_expires_at = now() where started_at = now()", False),
        ("update tidemill.job_leases set started_at = now() where job_id = 1", True),
        ("insert into tidemill.job_queue_entries values (1)", True),
    ],
)
def test_moves_of_a_job_are_recognised(statement: str, moves: bool) -> None:
    assert bool(MOVES.search(statement)) is moves
