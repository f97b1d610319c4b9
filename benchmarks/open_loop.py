"""Sends requests at set times over connections that stay open, whether or not earlier ones were answered."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


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
    status: int  # 0: the connection broke
    body: dict[str, Any]
    seconds: float  # since the moment it was to be sent, so that waiting for a slow server counts


def send(host: str, port: int, calls: Sequence[Call], *, per_second: float, connections: int) -> list[Answer]:
    """Call after call at an even pace, each over the connection whose turn it is."""
    return asyncio.run(_send(host, port, calls, per_second, connections))


async def _send(host: str, port: int, calls: Sequence[Call], per_second: float, connections: int) -> list[Answer]:
    streams = [await asyncio.open_connection(host, port) for _ in range(connections)]
    start = time.monotonic() + 0.5
    turns = [
        _use(stream, host, [(start + n / per_second, calls[n]) for n in range(turn, len(calls), connections)])
        for turn, stream in enumerate(streams)
    ]
    return [answer for answers in await asyncio.gather(*turns) for answer in answers]


async def _use(
    stream: tuple[asyncio.StreamReader, asyncio.StreamWriter], host: str, timed: list[tuple[float, Call]]
) -> list[Answer]:
    reader, writer = stream
    answers = []
    for due, call in timed:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        try:
            writer.write(call.head_and_body(host))
            status, body = await _read(reader)
        except (OSError, EOFError):
            status, body = 0, {}
        answers.append(Answer(call.key, status, body, time.monotonic() - due))
    writer.close()
    return answers


async def _read(reader: asyncio.StreamReader) -> tuple[int, dict[str, Any]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    body = await reader.readexactly(int(headers["content-length"]))
    return int(head[0].split()[1]), json.loads(body)
