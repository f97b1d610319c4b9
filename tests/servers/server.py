"""The base of all test servers: it finds a free port, and stops the server at the end of the `with` block."""

import socket
import subprocess
from types import TracebackType
from typing import Self


class ClosedAtExit:
    """Calls `close` at the end of a `with` block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError


class ServerProcess(ClosedAtExit):
    """A server in its own process, which is killed at the end."""

    _process: subprocess.Popen[bytes]

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
