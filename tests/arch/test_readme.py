"""The README names code: each name must exist where it says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LIFE = README.split("## The life of one job")[1].split("\n## ")[0]
NAMED = re.findall(r"`([\w/.]+\.py):(\w+)`", LIFE)
FILES = re.findall(r"`((?:functions|migrations)/[\w/.]+\.sql)`", LIFE)
FUNCTIONS = re.findall(r"`(\w+)` of `(migrations/[\w.]+\.sql)`", LIFE)
LINKS = re.findall(r"\]\(([^)#:]+)\)", README)


def test_life_of_one_job_names_at_least_fifteen_places() -> None:
    assert len(NAMED) + len(FILES) >= 15


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_name_in_the_life_of_one_job_exists(path: str, name: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^(?:async )?(?:def|class) {name}\b|^{name}\b.*=", text, re.MULTILINE), f"{path} has no {name}"


@pytest.mark.parametrize("path", FILES + LINKS)
def test_file_that_the_readme_names_exists(path: str) -> None:
    assert (ROOT / path).exists(), f"{path} is not there"


@pytest.mark.parametrize(("name", "path"), FUNCTIONS)
def test_function_of_the_database_is_named_where_it_was_last_made(name: str, path: str) -> None:
    makes = [
        file.name
        for file in sorted((ROOT / "migrations").glob("0*.sql"))
        if f"function tidemill.{name}(" in file.read_text(encoding="utf-8")
    ]
    assert makes
    assert Path(path).name == makes[-1]
