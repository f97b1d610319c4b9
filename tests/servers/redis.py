"""A real Redis server in its own process, on the loopback interface. Tests may kill, stop and restart it."""

import os
import secrets
import signal
import subprocess
import time
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from tests.servers.redis_binary import RedisBinary, redis_binary
from tests.servers.server import ServerProcess, free_port

START_SECONDS = 30.0


class RedisServer(ServerProcess):
    """Runs until closed. If `durable` is set, it writes to disk before it answers."""

    def __init__(
        self, directory: Path, *, durable: bool = False, fsync: str = "always", password: str | None = None
    ) -> None:
        self.directory = directory
        self.port = free_port()
        self.password = password or secrets.token_hex(8)
        self.url = f"redis://:{self.password}@127.0.0.1:{self.port}/0"
        self._durable = durable
        self._fsync = fsync
        self._binary: RedisBinary = redis_binary()
        self.start()

    def start(self) -> None:
        command = [self._binary.path, "--port", str(self.port), "--bind", "127.0.0.1", "--requirepass", self.password]
        command += ["--dir", str(self.directory), "--save", "", "--appendonly", "yes" if self._durable else "no"]
        command += ["--appendfsync", self._fsync, "--repl-diskless-sync-delay", "0"]
        with (self.directory / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._binary.environment},
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def kill(self) -> None:
        """Kills the server. Unlike after a power cut, the operating system still writes what the server gave it."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def flush(self) -> None:
        with self.client() as client:
            client.flushall()

    def client(self) -> "Redis":
        return Redis.from_url(self.url, decode_responses=True)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        with self.client() as client:
            while time.monotonic() < deadline:
                if self._process.poll() is not None:
                    raise AssertionError(f"Redis ended with {self._process.returncode}: {self._last_words()}")
                try:
                    client.ping()
                    return
                except RedisError:
                    time.sleep(0.05)
        raise AssertionError(f"Redis was not ready after {START_SECONDS:.0f} seconds: {self._last_words()}")

    def _last_words(self) -> str:
        return " ".join((self.directory / "redis.log").read_text(errors="replace").split())[-500:]
