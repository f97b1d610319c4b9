"""An open-loop client: sends requests at fixed times, whether or not earlier ones have been answered."""

import asyncio
import gc
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

IDLE_SECONDS = 2.0  # older connections are not reused, because the server may be about to close them


@dataclass(frozen=True)
class Call:
    """A POST of JSON with an idempotency key."""

    path: str
    body: dict[str, Any]
    key: str

    def head_and_body(self, host: str) -> bytes:
        body = json.dumps(self.body).encode()
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            f"Idempotency-Key: {self.key}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


@dataclass(frozen=True)
class Answer:
    key: str
    status: int  # 0 if the connection broke
    body: dict[str, Any]
    seconds: float  # since the scheduled time, so that waiting for a slow server counts
    late_seconds: float  # from the scheduled time to the actual sending: no connection was free, or the client was slow


@dataclass(frozen=True)
class Sent:
    answers: list[Answer]
    cpu_seconds: float  # of this process, which shares the machine with the server


def send(host: str, port: int, calls: Sequence[Call], *, per_second: float, connections: int) -> Sent:
    """Sends the calls at an even rate, each over a free connection. `connections` is the maximum."""
    return asyncio.run(_send(host, port, calls, per_second, connections))


async def _send(host: str, port: int, calls: Sequence[Call], per_second: float, connections: int) -> Sent:
    pool = _Pool(host, port, connections)
    requests = [(call, call.head_and_body(host)) for call in calls]
    tasks = []
    gc.disable()  # a pause of the client would be counted as latency of the server
    try:
        began, start = time.process_time(), time.monotonic() + 0.5
        for number, (call, data) in enumerate(requests):
            due = start + number / per_second
            if (early := due - time.monotonic()) > 0:
                await asyncio.sleep(early)
            tasks.append(asyncio.create_task(_ask(pool, call.key, data, due)))
        received = await asyncio.gather(*tasks)
        cpu_seconds = time.process_time() - began
    finally:
        gc.enable()
    pool.close()
    # Responses are parsed at the end, so that the client uses little CPU while it sends.
    answers = [Answer(key, status, json.loads(body or b"{}"), took, late) for key, status, body, took, late in received]
    return Sent(answers, cpu_seconds)


class _Pool:
    """A pool of free connections. It reuses the most recent one first, so that few are opened."""

    def __init__(self, host: str, port: int, most: int) -> None:
        self._address = host, port
        self._free: list[_Connection] = []
        self._turns = asyncio.Semaphore(most)

    async def take(self) -> "_Connection":
        await self._turns.acquire()
        while self._free:
            connection = self._free.pop()
            if not connection.is_closed and time.monotonic() - connection.free_since < IDLE_SECONDS:
                return connection
            connection.transport.close()
        try:
            _, made = await asyncio.get_running_loop().create_connection(_Connection, *self._address)
        except OSError:
            self._turns.release()
            raise
        return made

    def give_back(self, connection: "_Connection") -> None:
        connection.free_since = time.monotonic()
        self._free.append(connection)
        self._turns.release()

    def close(self) -> None:
        for connection in self._free:
            connection.transport.close()


class _Connection(asyncio.Protocol):
    """A connection that sends one request at a time. It supports only the HTTP that the service sends."""

    transport: asyncio.Transport
    is_closed = False
    free_since = 0.0
    _answer: "asyncio.Future[tuple[int, bytes]] | None" = None
    _received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def ask(self, data: bytes) -> "asyncio.Future[tuple[int, bytes]]":
        self._received = b""
        self._answer = asyncio.get_running_loop().create_future()
        if self.is_closed:
            self._answer.set_exception(ConnectionResetError())
        else:
            self.transport.write(data)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if found and self._answer is not None and not self._answer.done():
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            if len(body) >= int(length):
                self._answer.set_result((int(head[9:12]), body))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError())


async def _ask(pool: _Pool, key: str, data: bytes, due: float) -> tuple[str, int, bytes, float, float]:
    late = 0.0
    try:
        connection = await pool.take()
        late = time.monotonic() - due
        try:
            status, body = await connection.ask(data)
        finally:
            pool.give_back(connection)
    except OSError:
        status, body = 0, b""
    return key, status, body, time.monotonic() - due, late
