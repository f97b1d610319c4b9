"""A proxy to Redis. It can drop the answer of a script that has run, or connect clients to another server."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from tests.servers.server import ClosedAtExit


class Wire(ClosedAtExit):
    """Forwards bytes to a port on this machine."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.cut = 0  # how many answers of scripts to drop, each with its connection
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.lay_to(self.target)
        for thread in self._threads:
            thread.join()

    def lay_to(self, port: int) -> None:
        """Sends new connections to another port and breaks the open ones."""
        self.target = port
        for end in list(self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def losing_answers(self, number: int = 1) -> Iterator[None]:
        self.cut = number
        yield
        assert self.cut == 0, "nobody asked"

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(near,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, near: socket.socket) -> None:
        with closing(near), suppress(OSError), socket.create_connection(("127.0.0.1", self.target)) as far:
            self._open |= {near, far}
            asked = bytearray()
            back = threading.Thread(target=self._answer, args=(far, near, asked), daemon=True)
            back.start()
            try:
                while some := near.recv(65536):
                    asked[:] = some
                    far.sendall(some)
            finally:
                with suppress(OSError):
                    far.shutdown(socket.SHUT_RDWR)
                back.join()
                self._open -= {near, far}

    def _answer(self, far: socket.socket, near: socket.socket, asked: bytearray) -> None:
        with suppress(OSError):
            while answer := far.recv(65536):
                if self.cut and b"EVALSHA" in asked and not answer.startswith(b"-NOSCRIPT"):
                    self.cut -= 1
                    break
                near.sendall(answer)
        with suppress(OSError):
            near.shutdown(socket.SHUT_RDWR)
