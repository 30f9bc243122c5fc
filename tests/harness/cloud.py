"""An AWS on this machine: ministack in a process of its own, on loopback, with a stage's synthesised stacks deployed into it.

It runs under the Python that Lambda has, if this machine has one, and starts the functions with the same: they find the code asset, the
dependency layer and what Lambda's own runtime brings (boto3), and nothing else of this machine.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import socket
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from infra import bundle

ACCOUNT, REGION, HOST = "000000000000", "eu-central-1", "127.0.0.1"
BUCKET = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
RUNTIME_BRINGS = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six.py", "urllib3")
SITE = Path(boto3.__file__).parents[1]
_RUN = "import sys; sys.path.append({site!r}); sys.argv = ['ministack']; from ministack.app import main; main()"


class Cloud:
    """A running ministack. `client(service)` is boto3's; `log` what the process has said."""

    def __init__(self, folder: Path, python: Path) -> None:
        self._folder = folder
        brought = folder / "runtime"
        brought.mkdir(parents=True)
        for name in RUNTIME_BRINGS:
            (brought / name).symlink_to(SITE / name)
        with socket.socket() as free:
            free.bind((HOST, 0))
            self.port: int = free.getsockname()[1]
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder), "PYTHONPATH": str(brought),
            "BIND_HOST": HOST, "GATEWAY_PORT": str(self.port), "MINISTACK_HOST": HOST,
            "MINISTACK_REGION": REGION, "MINISTACK_ACCOUNT_ID": ACCOUNT, "LAMBDA_EXECUTOR": "local", "LAMBDA_ACCOUNT_CONCURRENCY": "10",
            "MINISTACK_WORKER_THREADS": "16", "LOG_LEVEL": "WARNING",
        }  # fmt: skip
        self._said = (folder / "ministack.log").open("wb")
        command = [str(python), "-c", _RUN.format(site=str(SITE))]
        self._process = subprocess.Popen(command, env=environment, cwd=folder, stdout=self._said, stderr=subprocess.STDOUT)

    @property
    def log(self) -> str:
        return (self._folder / "ministack.log").read_text(errors="replace")

    def client(self, service: str) -> Any:
        return boto3.client(
            service, endpoint_url=f"http://{HOST}:{self.port}", region_name=REGION, aws_access_key_id=ACCOUNT, aws_secret_access_key="test",
            config=Config(retries={"total_max_attempts": 1}, read_timeout=120, s3={"addressing_style": "path"}),
        )  # fmt: skip

    def answers(self) -> bool:
        """Whether it takes calls yet."""
        try:
            with socket.create_connection((HOST, self.port), timeout=1):
                return True
        except OSError:
            return False

    def call(self, host: str, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """One request to a host of this cloud, as if its name led here."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=120)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"host": host, "content-type": "application/json", **(headers or {})})
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        return response.status, json.loads(text) if text else None

    def bootstrap(self) -> None:
        """What `cdk bootstrap` leaves in an account, as far as a deploy looks for it."""
        self.client("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String")
        self.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})

    def publish(self, assembly: Path, stack: str, instead: dict[str, Path]) -> None:
        """A stack's file assets lie where its template looks for them, as `cdk deploy` would have put them.

        instead: another folder, by display name.
        """
        store = self.client("s3")
        manifest = json.loads((assembly / f"{stack}.assets.json").read_text())
        for about in manifest["files"].values():
            if about["source"]["packaging"] == "zip":
                folder = instead.get(about["displayName"], assembly / about["source"]["path"])
                (target,) = about["destinations"].values()
                store.put_object(Bucket=BUCKET, Key=target["objectKey"], Body=zipped(folder))

    def deploy(self, stack: str, template: dict[str, Any]) -> dict[str, str]:
        """The outputs of the stack, created through CloudFormation."""
        formation, address = self.client("cloudformation"), f"http://{HOST}:{self.port}/{BUCKET}/{stack}.json"
        # As the CDK does: a template of this size must come out of a bucket.
        self.client("s3").put_object(Bucket=BUCKET, Key=f"{stack}.json", Body=json.dumps(template).encode())
        formation.create_stack(StackName=stack, TemplateURL=address, Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"])
        found = self._ended(stack)
        assert found["StackStatus"] == "CREATE_COMPLETE", self.events(stack)
        return {each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", [])}

    def delete(self, stack: str) -> None:
        """The stack is gone."""
        formation = self.client("cloudformation")
        stack_id = formation.describe_stacks(StackName=stack)["Stacks"][0]["StackId"]
        formation.delete_stack(StackName=stack)
        assert self._ended(stack_id)["StackStatus"] == "DELETE_COMPLETE", self.events(stack_id)

    def wait_for(self, look: Callable[[], bool], secs: float = 120) -> None:
        """Until `look` finds it."""
        until = time.monotonic() + secs
        while not look():
            assert self._process.poll() is None and time.monotonic() < until, self.log[-3_000:]
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=0.05)

    def _ended(self, stack: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def look() -> bool:
            found.update(self.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0])
            return not found["StackStatus"].endswith("_IN_PROGRESS")

        self.wait_for(look)
        return found

    def events(self, stack: str) -> str:
        """What went wrong, for an assertion's text."""
        told = self.client("cloudformation").describe_stack_events(StackName=stack)["StackEvents"]
        lines = [
            f"{each['LogicalResourceId']} {each['ResourceStatus']} {each.get('ResourceStatusReason', '')}"
            for each in told
            if "FAILED" in each["ResourceStatus"] or "ROLLBACK" in each["ResourceStatus"]
        ]
        return "\n".join([*lines, self.log[-2_000:]])

    def close(self) -> None:
        """Ends the process and the functions' processes that it started, each by its id."""
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/children")
        started = [int(pid) for path in tasks for pid in path.read_text().split()]
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pid in started:
            if str(self._folder).encode() in _command_of(pid):
                os.kill(pid, signal.SIGKILL)
        self._said.close()


def zipped(folder: Path) -> bytes:
    """The folder's files as one archive, quickly: nobody measures this one."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return made.getvalue()


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@contextmanager
def running(folder: Path) -> Iterator[Cloud]:
    """A ministack of the caller's own, ready for calls."""
    cloud = Cloud(folder, bundle.test_python()[0])
    try:
        cloud.wait_for(cloud.answers)
        yield cloud
    finally:
        cloud.close()
