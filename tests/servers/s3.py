"""A real S3 server in its own process, on the loopback interface. Its access log lists every request."""

import os
import secrets
import socket
import subprocess
import time
from pathlib import Path

from tests.servers.s3_binary import s3_binary
from tests.servers.server import ServerProcess, free_port

START_SECONDS = 30.0
REGION = "us-east-1"


class S3Server(ServerProcess):
    """Runs until closed. A bucket is a directory in `directory/data`."""

    def __init__(self, directory: Path, *, keep_alive: bool = False) -> None:
        """`keep_alive` leaves connections open between requests, as Amazon's servers do."""
        self.directory = directory
        self.data = directory / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.access_key = "tidyberg-tests"
        self.secret_key = secrets.token_hex(16)
        self._access_log = directory / "access.log"
        self._log = directory / "server.log"
        command = [s3_binary(), "--port", f"127.0.0.1:{self.port}", "--region", REGION]
        command += ["--quiet", "--access-log", str(self._access_log)]
        command += [*(["--keep-alive"] if keep_alive else []), "posix", str(self.data)]
        keys = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **keys}
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    @property
    def properties(self) -> dict[str, str]:
        """The properties that PyIceberg's catalogs need for this server."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.region": REGION,
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
        }

    def make_bucket(self, name: str) -> str:
        (self.data / name).mkdir()
        return f"s3://{name}"

    def objects(self, bucket: str) -> set[str]:
        """Returns the locations of all objects, without uploads that were not completed."""
        root = self.data / bucket
        files = (path for path in root.rglob("*") if path.is_file())
        return {f"s3://{bucket}/{path.relative_to(root)}" for path in files if ".sgwtmp" not in path.parts}

    def unfinished_uploads(self, bucket: str) -> list[str]:
        """Returns the server's files of uploads that were neither completed nor aborted."""
        return sorted(str(path) for path in (self.data / bucket / ".sgwtmp").rglob("*") if path.is_file())

    def asked(self, bucket: str) -> list[tuple[str, str]]:
        """Returns all requests for a bucket in order: the operation, by S3's name, and the key."""
        lines = [line.split(" ") for line in self._access_log.read_text().splitlines()]
        return [(line[7].removeprefix("s3_"), line[8]) for line in lines if line[1] == bucket]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise AssertionError(f"the S3 server ended with {self._process.returncode}: {self._last_words()}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"the S3 server was not ready after {START_SECONDS:.0f} seconds: {self._last_words()}")

    def _last_words(self) -> str:
        return " ".join(self._log.read_text(errors="replace").split())[-500:]
