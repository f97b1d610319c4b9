"""Map and reduce tasks that only move numbered chunks. Workers import this module, so it imports what they have."""

import hashlib
import os
import signal
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.shuffle import ArrivedChunks, Chunk, ShuffleAttempt, ShuffleJob
from tidyberg.model.task import TaskInput


@dataclass(frozen=True)
class Trouble:
    """Happens once in the middle of a task, or each time if there is no file to remember it in."""

    kind: str  # storage | damaged | kill | wait
    remembered: str | None = None

    def happen(self) -> None:
        if self.remembered is not None:
            if Path(self.remembered).exists():
                return
            Path(self.remembered).write_text("it has happened")
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "wait":
            time.sleep(60)
        raise KernelFailure(FailureKind(self.kind), "trouble in the middle of a task")


@dataclass(frozen=True)
class NumberedChunks:
    """Sends `count` chunks: to partition 0 `skew` times as often as to each other one, and none to the last."""

    number: int
    count: int
    partitions: int
    size: int = 10
    skew: int = 1
    trouble: Trouble | None = None

    @property
    def inputs(self) -> tuple[TaskInput, ...]:
        return (TaskInput(f"numbers-{self.number}", self.count * self.size, self.count),)

    def content(self, chunk: int) -> bytes:
        return f"{self.number}-{chunk}".encode().ljust(self.size, b".")

    def partition(self, chunk: int) -> int:
        slot = chunk % (self.skew + max(1, self.partitions - 2))
        return max(0, slot - self.skew + 1)

    def chunks(self, attempt: ShuffleAttempt) -> Generator[Chunk, None, str]:
        for chunk in range(self.count):
            if chunk == self.count // 2 and self.trouble is not None:
                self.trouble.happen()
            yield Chunk(self.partition(chunk), self.content(chunk), tag=chunk % 3)
        return f"map {self.number} sent {self.count} chunks with attempt {attempt.number}"


Seen = tuple[int, int, str]  # map number, tag, digest


@dataclass(frozen=True)
class SeenChunks:
    """Returns what has arrived, as a whole and for tag 1."""

    number: int
    trouble: Trouble | None = None

    def reduce(self, chunks: ArrivedChunks, attempt: ShuffleAttempt) -> tuple[list[Seen], list[Seen], dict[int, int]]:
        everything = [(c.map_number, c.tag, _digest(bytes(c.data))) for c in chunks]
        if self.trouble is not None:
            self.trouble.happen()
        tagged = [(c.map_number, c.tag, _digest(bytes(c.data))) for c in chunks.tagged(1)]
        return everything, tagged, chunks.bytes_by_tag


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def numbered_job(
    maps: int = 4,
    partitions: int = 5,
    count: int = 30,
    group_id: int = 7,
    *,
    size: int = 10,
    skew: int = 1,
    trouble: Trouble | None = None,
    reduce_trouble: Trouble | None = None,
) -> ShuffleJob:
    """The second map task and the second reduce task have the trouble."""
    return ShuffleJob(
        "job",
        group_id,
        tuple(NumberedChunks(n, count, partitions, size, skew, trouble if n == 1 else None) for n in range(maps)),
        tuple(SeenChunks(n, reduce_trouble if n == 1 else None) for n in range(partitions)),
    )


def expected_results(job: ShuffleJob) -> list[tuple[list[Seen], list[Seen], dict[int, int]]]:
    """What each reduce task must have seen, in this order."""
    results = []
    for partition in range(len(job.reduces)):
        everything = []
        sizes: dict[int, int] = {}
        for task in job.maps:
            assert isinstance(task, NumberedChunks)
            for chunk in range(task.count):
                if task.partition(chunk) == partition:
                    everything.append((task.number, chunk % 3, _digest(task.content(chunk))))
                    sizes[chunk % 3] = sizes.get(chunk % 3, 0) + task.size
        results.append((everything, [one for one in everything if one[1] == 1], dict(sorted(sizes.items()))))
    return results
