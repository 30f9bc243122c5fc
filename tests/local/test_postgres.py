"""The embedded server: what survives, what ends it, what a bad folder gives."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import psycopg
import pytest

from harness.clock import allowed
from tidemill.local import data_folder, postgres
from tidemill.local.data_folder import DataFolderInUse, DataFolderUnusable, ServerDidNotStart

FUNCTIONS = Path(__file__).resolve().parents[2] / "functions"
OWNER = """
import sys
from pathlib import Path
from tidemill.local import postgres
server = postgres.start(Path(sys.argv[1]) if sys.argv[1] else None, fsync=False)
print(server.pid, server.data_dir, server.dsn, flush=True)
sys.stdin.read()
"""


def scalar(dsn: str, statement: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute(statement).fetchone()
    assert row is not None
    return row[0]


def keep_a_row(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("create table kept as select 1 as one")


def gone(pid: int) -> bool:
    """Has this process ended within some seconds?"""
    try:
        psutil.Process(pid).wait(120)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def spawn_owner(folder: Path | None) -> tuple[subprocess.Popen[str], int, Path, str]:
    """A process that owns a server on this folder, and the server's pid, folder and URL."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder or "")],
        env={**os.environ, "PYTHONPATH": str(FUNCTIONS)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert owner.stdout is not None
    pid, data_dir, dsn = owner.stdout.readline().split()
    return owner, int(pid), Path(data_dir), dsn


def end(owner: subprocess.Popen[str], how: signal.Signals) -> None:
    owner.send_signal(how)
    owner.communicate()


def test_a_kept_folder_keeps_its_data_and_its_password(tmp_path: Path) -> None:
    with postgres.start(tmp_path, fsync=False) as server:
        keep_a_row(server.dsn)
        first = server.dsn.rpartition("@")[0]
    with postgres.start(tmp_path, fsync=False) as server:
        assert scalar(server.dsn, "select one from kept") == 1
        assert server.dsn.rpartition("@")[0] == first


def test_a_temporary_folder_is_removed_with_the_server() -> None:
    server = postgres.start(None, fsync=False)
    assert server.data_dir.exists()
    server.stop()
    server.stop()
    assert server.pid is None
    assert not server.data_dir.exists()


def test_a_killed_server_keeps_what_was_committed_and_comes_back_on_the_same_port(own_server: postgres.Server) -> None:
    dsn = own_server.dsn
    keep_a_row(dsn)
    own_server.kill()
    assert own_server.pid is None
    own_server.restart()
    assert own_server.dsn == dsn
    assert scalar(dsn, "select one from kept") == 1


def test_it_listens_on_the_loopback_address_only(own_server: postgres.Server) -> None:
    assert own_server.pid is not None
    listening = [entry.laddr for entry in psutil.Process(own_server.pid).net_connections("all") if entry.status == psutil.CONN_LISTEN]
    assert [(address.ip, address.port) for address in listening] == [("127.0.0.1", own_server.port)]


def test_a_wrong_password_is_refused(own_server: postgres.Server) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(own_server.dsn, password="wrong")


def test_settings_win_over_the_defaults() -> None:
    with postgres.start(None, settings={"max_connections": "17", "timezone": "UTC"}, fsync=False) as server:
        assert scalar(server.dsn, "show max_connections") == "17"
        assert scalar(server.dsn, "show fsync") == "off"


def test_durable_unless_told_otherwise(tmp_path: Path) -> None:
    with postgres.start(tmp_path) as server:
        assert [scalar(server.dsn, f"show {name}") for name in ("fsync", "full_page_writes", "synchronous_commit")] == ["on", "on", "on"]


def test_it_starts_within_seconds() -> None:
    began = time.perf_counter()
    with postgres.start(None, fsync=False):
        took_s = time.perf_counter() - began
    print(f"fresh start: {took_s:.2f} s")
    assert took_s < allowed(5)  # 0.7 s on an idle machine; the bound only has to catch a lost order of magnitude


def test_it_does_not_run_as_root(own_server: postgres.Server) -> None:
    assert own_server.pid is not None
    assert psutil.Process(own_server.pid).uids().effective != 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_ends_when_its_owner_is_killed(how: signal.Signals) -> None:
    owner, pid, data_dir, _ = spawn_owner(None)
    end(owner, how)
    assert gone(pid)
    deadline = time.monotonic() + 120
    while data_dir.exists():
        assert time.monotonic() < deadline, "the temporary folder was left behind"


def test_a_folder_whose_owner_was_killed_can_be_used_at_once(tmp_path: Path) -> None:
    owner, _, _, dsn = spawn_owner(tmp_path)
    keep_a_row(dsn)
    end(owner, signal.SIGKILL)
    with postgres.start(tmp_path, fsync=False) as server:
        assert scalar(server.dsn, "select one from kept") == 1


def test_a_pid_file_of_a_dead_server_is_no_obstacle(tmp_path: Path) -> None:
    with postgres.start(tmp_path, fsync=False) as server:
        pid_file = tmp_path / "cluster" / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
        server.kill()
    with subprocess.Popen(["true"]) as ended:
        pass
    for pid in (ended.pid, os.getpid()):  # ended; alive but something else
        pid_file.write_text("\n".join([str(pid), *lines[1:]]) + "\n")
        pid_file.chmod(0o644)
        with postgres.start(tmp_path, fsync=False) as server:
            assert scalar(server.dsn, "select 1") == 1


def test_a_folder_in_use_names_the_process_that_uses_it(tmp_path: Path) -> None:
    with postgres.start(tmp_path, fsync=False), pytest.raises(DataFolderInUse, match=f"in use by process {os.getpid()}"):
        postgres.start(tmp_path, fsync=False)


def test_a_file_in_place_of_the_folder_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataFolderUnusable, match=r"cannot be made: .*choose another with --data-dir"):
        postgres.start(tmp_path / "file" / "data")


def test_data_of_another_major_version_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "PG_VERSION").write_text("15\n")
    with pytest.raises(DataFolderUnusable, match="made by PostgreSQL 15, this server is 18"):
        postgres.start(tmp_path)


def test_an_interrupted_first_start_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "cluster.new" / "base").mkdir(parents=True)
    with postgres.start(tmp_path, fsync=False) as server:
        assert scalar(server.dsn, "select 1") == 1


def test_a_cluster_that_was_not_yet_safe_on_disk_is_begun_again(tmp_path: Path) -> None:
    """Nobody was told that it is ready, so nothing that counts can be in it."""
    with postgres.start(tmp_path) as server:
        assert not (tmp_path / "unsettled").exists()
        keep_a_row(server.dsn)
    (tmp_path / "unsettled").touch()
    with postgres.start(tmp_path) as server:
        assert scalar(server.dsn, "select to_regclass('kept')") is None
    assert not (tmp_path / "unsettled").exists()
    with postgres.start(tmp_path) as server:
        assert scalar(server.dsn, "select 1") == 1


def test_the_address_can_be_known_before_the_server_runs(tmp_path: Path) -> None:
    server = postgres.Server(tmp_path, port=0, settings={}, fsync=False)
    promised = server.promise()
    with server:
        server.run()
        assert server.dsn == promised
        assert scalar(promised, "select 1") == 1


def test_a_start_that_is_given_up_ends_soon_and_frees_the_folder(tmp_path: Path) -> None:
    server = postgres.Server(tmp_path, port=0, settings={}, fsync=False)
    server.give_up()
    with pytest.raises(ServerDidNotStart, match="not wanted"):
        server.run()
    with postgres.start(tmp_path, fsync=False) as other:
        assert scalar(other.dsn, "select 1") == 1


def test_a_taken_port_is_a_clear_error_and_frees_the_folder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerDidNotStart, match=rf"port {port} on 127\.0\.0\.1 is in use"):
            postgres.start(tmp_path, port=port, fsync=False)
    data_folder.lock(tmp_path).close()


def test_a_setting_the_server_does_not_know_is_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(ServerDidNotStart, match="unrecognized configuration parameter"):
        postgres.start(tmp_path, settings={"no_such_setting": "1"}, fsync=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root drops to another user")
def test_a_folder_below_a_shut_one_is_opened_for_the_server_alone(tmp_path: Path) -> None:
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o700)
    with postgres.start(shut / "data", fsync=False) as server:
        assert scalar(server.dsn, "select 1") == 1
    assert shut.stat().st_mode & 0o007 == 0


def test_the_longest_path_is_no_obstacle(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    with postgres.start(deep, fsync=False) as server:
        assert scalar(server.dsn, "select 1") == 1
