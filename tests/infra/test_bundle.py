"""The bundle as Lambda sees it: small and complete, in an interpreter that knows nothing else (how long imports take: test_cold_start)."""

import ast
import shutil
from pathlib import Path

import pytest

from harness.lambdas import Python
from harness.stages import ROOT
from infra import bundle
from infra.compile_code import without_docstrings
from tidemill.http import routes
from tidemill.store.statements import FOLDER, sql

HANDLERS = ["enqueue", "claims", "admin", "scheduler", "authorizer", "migrator", "deploy", "courier"]
MB = 1_000_000
BUILT_PAGE_BYTES = 80_000
"""What the page weighs in the archive, where it is not built on this machine."""
FUNCTIONS = ROOT / "functions"


@pytest.fixture(scope="module")
def code() -> Path:
    return bundle.code()


@pytest.fixture(scope="module")
def python() -> Python:
    return Python.found()


def zipped(folder: Path, at: Path) -> int:
    """Bytes of the archive, packed as the CDK packs it: at zlib's default level."""
    return Path(shutil.make_archive(str(at / "z"), "zip", folder)).stat().st_size


def test_code_is_at_most_a_megabyte_with_its_page(code: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    took = zipped(code, tmp_path) + (0 if bundle.page() else BUILT_PAGE_BYTES)
    with capsys.disabled():
        print(f"\ncode asset: {took:,} bytes")
    assert took <= 1 * MB


def test_layer_is_at_most_twelve_megabytes(tmp_path: Path) -> None:
    assert zipped(bundle.layer(), tmp_path) <= 12 * MB


def test_layer_is_for_arm_and_for_this_python(code: Path) -> None:
    libraries = [path.name for path in bundle.layer().rglob("*.so")]
    assert libraries
    assert not [name for name in libraries if "x86_64" in name]
    assert [name for name in libraries if "cpython-313-aarch64" in name]


def test_code_brings_its_migrations_certificates_and_page_and_no_worker(code: Path) -> None:
    assert list((code / "migrations").glob("0001_*.sql"))
    assert (code / "tidemill" / "store" / "rds-ca.pem").is_file()
    assert (code / "page" / "index.html").is_file()
    assert not (code / "runner").exists()
    assert not (code / "tidemill" / "local").exists()


def test_migrations_keep_every_byte_and_statements_what_is_sent_of_them(code: Path) -> None:
    for path in (ROOT / "migrations").glob("0*.sql"):
        assert (code / "migrations" / path.name).read_bytes() == path.read_bytes()
    names = {path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.sql")}
    staged = code / "tidemill" / "store" / "sql"
    found = {path.relative_to(staged).with_suffix("").as_posix(): path.read_bytes() for path in staged.rglob("*.sql")}
    assert found == {name: sql(name) for name in names if not name.startswith(("demo/", "doctor/"))}


def modules(folder: Path) -> dict[str, Path]:
    """Modules below a folder, by name."""
    found = {}
    for path in folder.rglob("*.py*"):
        if path.suffix in (".py", ".pyc") and "__pycache__" not in path.parts:
            found[".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")] = path
    return found


def imported(path: Path) -> set[str]:
    """Names that a source imports when it runs, wherever in it, with those of their packages."""
    found, left = set[str](), list[ast.AST](ast.parse(path.read_bytes()).body)
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            left += node.orelse
            continue
        left += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{each.name}" for each in node.names)
    return {".".join(parts[:length]) for parts in (name.split(".") for name in found) for length in range(1, len(parts) + 1)}


def test_code_has_every_module_that_a_handler_reaches_and_no_other(code: Path) -> None:
    sources, staged = modules(FUNCTIONS), set(modules(code))
    reached = {f"{name}.handler" for name in HANDLERS} | {f"tidemill.http.{route.endpoint.partition(':')[0]}" for route in routes.TABLE}
    reached |= {name for name in sources if name.startswith("tidemill.domain.cron")}  # one package, loaded by names in a table
    left = set(reached)
    while left:
        left = {name for each in left for name in imported(sources[each]) if name in sources} - reached
        reached |= left
    assert staged - reached == set(), "no handler imports these: name them in NOT_IN_CODE of infra/bundle.py"
    assert reached - staged == set(), "a handler imports these: take them out of NOT_IN_CODE"


@pytest.mark.parametrize("name", HANDLERS)
def test_handler_imports_from_the_bundle_alone(python: Python, code: Path, name: str) -> None:
    program = f"import {name}.handler, sys; print(sys.version_info[:2], {name}.handler.__file__)"
    assert str(code) in python.program(code, program)


def test_what_is_compiled_is_the_same_program_without_docstrings() -> None:
    source = '"""Module."""\n\n\nclass A:\n    """Class."""\n\n\ndef f(x):\n    """Says."""\n    assert x, "not x"\n    return "text"\n'
    made = without_docstrings(ast.parse(source))
    spaces: dict[str, object] = {"__name__": "m"}
    exec(compile(made, "m.py", "exec", optimize=0), spaces)
    assert (spaces.get("__doc__"), spaces["A"].__doc__, spaces["f"].__doc__) == (None, None, None)
    assert spaces["f"](1) == "text"
    with pytest.raises(AssertionError, match="not x") as raised:
        spaces["f"](0)
    assert raised.traceback[-1].lineno + 1 == 10


@pytest.mark.skipif(bundle.python_of_runtime() is None, reason=f"no Python {bundle.RUNTIME} here, so the bundle is not compiled")
def test_compiled_code_is_of_the_release_that_lambda_runs_and_names_its_sources(python: Python, code: Path) -> None:
    """Another release's .pyc would not be slow but refused: there is no source beside it to fall back to."""
    compiled = list(code.rglob("*.pyc"))
    assert {path.read_bytes()[:8].hex() for path in compiled} == {"f30d0d0a01000000"}  # 3.13's magic number 3571; unchecked hash
    assert not list(code.rglob("*.py"))
    program = "import tidemill.engine.claim as m; print(m.claim.__code__.co_filename, m.claim.__code__.co_firstlineno)"
    file, line = python.program(code, program).split()
    source = FUNCTIONS / Path(file).relative_to("/var/task")
    assert source.read_text().splitlines()[int(line) - 1].startswith("def claim(")
