"""The worker's image: what its Dockerfile promises, and, where buildah is, that it is built and runs as ECS will run it."""

import json
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import container
from harness.container import Image
from harness.mill import Mill, opened
from harness.stages import ROOT, Templates, of_type
from harness.working import eventually
from infra import bundle

DOCKERFILE = ROOT / "functions" / "runner" / "Dockerfile"
HANDLERS = """
import os, socket
from tidemill import App

app = App()


@app.job("hold")
def hold(ctx, payload):
    with socket.create_connection(("127.0.0.1", payload["port"])) as test:
        test.sendall(b"begun")
        test.recv(1)


@app.job("look", isolation="process")
def look(ctx, payload):
    found = {"uid": os.getuid(), "tmp": os.access("/tmp", os.W_OK)}
    try:
        open("/app/new", "w")
    except OSError as error:
        found["app"] = error.strerror
    return found
"""


def instructions() -> list[tuple[str, str]]:
    """(instruction, its words) of the Dockerfile, in order."""
    lines = [line for line in DOCKERFILE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_dockerfile_is_built_on_a_base_of_ones_own_choice_with_a_version() -> None:
    found = instructions()
    assert found[0][0] == "ARG"
    name, _, default = found[0][1].partition("=")
    assert (name, found[1]) == ("BASE_IMAGE", ("FROM", "${BASE_IMAGE}"))
    assert re.fullmatch(r"python:3\.\d+-slim", default)
    assert [word for word, _ in found].count("FROM") == 1


def test_dockerfile_ends_as_a_user_without_rights_and_in_exec_form() -> None:
    found = instructions()
    user = [rest for word, rest in found if word == "USER"]
    assert user == ["10001:10001"]
    after = [word for word, _ in found][[word for word, _ in found].index("USER") :]
    assert after == ["USER", "ENTRYPOINT", "CMD"]
    for word, rest in found:
        if word in ("ENTRYPOINT", "CMD"):
            assert all(isinstance(each, str) for each in json.loads(rest))


def test_dockerfile_adds_nothing_from_addresses_and_installs_by_hash() -> None:
    for word, rest in instructions():
        assert word in ("ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD")
        assert "://" not in rest
        if word == "RUN" and "install" in rest and "requirements.txt" not in rest:
            assert "--require-hashes" in rest
        if word == "RUN" and "pip" in rest:
            assert "--no-cache-dir" in rest


def test_build_context_is_what_the_dockerfile_copies_and_nothing_of_this_machine() -> None:
    """The folder is made for the build, so that it needs no .dockerignore."""
    context = bundle.worker("docs/examples/handlers")
    copied = {source.split("/")[0] for word, rest in instructions() if word == "COPY" for source in rest.removeprefix("./").split()[:-1]}
    assert {path.name for path in context.iterdir()} == {*copied, "Dockerfile"}
    names = [path.name for path in context.rglob("*")]
    assert not [name for name in names if name.startswith(".") or name.endswith(".pyc") or name == "__pycache__"]


def test_hidden_files_of_the_teams_folder_stay_out_of_the_image() -> None:
    """An .env or a .git in it would be read by whoever may pull the image."""
    folder = ROOT / ".tidemill" / "hidden-handlers"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / ".git").mkdir(parents=True)
    for name in ("jobs.py", ".env", ".git/config"):
        (folder / name).write_text("")
    try:
        context = bundle.worker(str(folder.relative_to(ROOT)))
    finally:
        shutil.rmtree(folder)
    assert {path.name for path in (context / "handlers").rglob("*")} == {"jobs.py", "requirements.txt"}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    if reason := container.why_not():
        pytest.skip(reason)
    folder = ROOT / ".tidemill" / "handlers-of-a-test"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "jobs.py").write_text(HANDLERS)
    try:
        context = bundle.worker(str(folder.relative_to(ROOT)))
    finally:
        shutil.rmtree(folder)
    with container.built(context, tmp_path_factory.mktemp("image")) as made:
        yield made


@pytest.fixture
def mill(database: str) -> Iterator[Mill]:
    with opened(database) as made:
        yield made


def test_image_says_what_the_task_definition_relies_on(image: Image, templates: Templates) -> None:
    (task,) = of_type(templates("dev")["Service"], "AWS::ECS::TaskDefinition").values()
    (told,) = task["ContainerDefinitions"]
    assert image.config["User"] == told["User"]
    certificates = next(pair["Value"] for pair in told["Environment"] if pair["Name"] == "TIDEMILL_DATABASE_CA_FILE")
    assert (image.root / certificates.lstrip("/")).is_file()
    assert not [path for path in (image.root / "app").rglob("*") if path.stat().st_uid != 0]  # the user changes nothing of its own code


def test_container_works_confined_and_drains_when_it_is_told_to_end(image: Image, mill: Mill, templates: Templates, tmp_path: Path) -> None:
    """The command is the template's; the database is the test's."""
    (task,) = of_type(templates("dev")["Service"], "AWS::ECS::TaskDefinition").values()
    command = [*task["ContainerDefinitions"][0]["Command"], "--project", mill.project_id]
    looked = mill.new(job_type="look")
    said = tmp_path / "said"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(120)
        held = mill.new(job_type="hold", payload={"port": listening.getsockname()[1]})
        worker = image.run(command, {"TIDEMILL_DATABASE_URL": mill.dsn, "TIDEMILL_STAGE": "dev"}, said)
        try:
            with listening.accept()[0] as handler:
                assert handler.recv(5) == b"begun"
                eventually(lambda: worker.file("/tmp/healthy").exists())
                eventually(lambda: mill.state(looked) == "completed")
                about = worker.status()
                assert (about["Uid"].split()[0], about["Gid"].split()[0], about["NSpid"].split()[-1]) == ("10001", "10001", "1")
                assert int(about["CapEff"], 16) == int(about["CapPrm"], 16) == 0
                worker.stop()
                eventually(lambda: "stopping" in said.read_text())
                assert worker.outer.poll() is None  # its job runs still
                handler.sendall(b".")
            assert worker.ended() == 0, said.read_text()
        finally:
            worker.close()
    assert (mill.state(held), mill.state(looked)) == ("completed", "completed"), said.read_text()
    row = mill.conn.execute("select result from tidemill.job_executions where job_id = %s", [looked]).fetchone()
    assert row is not None
    assert row[0] == {"uid": 10001, "tmp": True, "app": "Read-only file system"}
