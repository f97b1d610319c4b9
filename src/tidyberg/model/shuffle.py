"""A shuffle: map tasks divide data among partitions, and each reduce task gets all data of one partition.

It is shipped, so it needs only the standard library. Engines move the chunks; only tasks know what is in them.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tidyberg.model.task_input import TaskInput

if TYPE_CHECKING:
    import pyarrow as pa

    from tidyberg.storage.file_io import Storage

# Spark copies a chunk several times on its way. Workers and the JVM must be able to hold a few of them.
MAX_CHUNK_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes that a map task sends to a partition."""

    partition: int  # the number of the reduce task
    data: "bytes | pa.Buffer"  # at most MAX_CHUNK_BYTES
    tag: int = 0  # a reduce task can read the chunks of one tag without the others


@dataclass(frozen=True, slots=True)
class ArrivedChunk:
    map_number: int
    tag: int
    data: "pa.Buffer"


class ArrivedChunks(Protocol):
    """The chunks of one partition. They are on disk until they are read.

    Each chunk of a successful attempt is here once. The order is that of map numbers, and within a map task that in
    which it sent the chunks. So it is the same on every engine.
    """

    @property
    def bytes_by_tag(self) -> dict[int, int]:
        """How many bytes have arrived for each tag, in the order of tags."""

    def __iter__(self) -> Iterator[ArrivedChunk]: ...

    def tagged(self, tag: int) -> Iterator[ArrivedChunk]: ...


@dataclass(frozen=True)
class ShuffleAttempt:
    """One attempt to run a task of a shuffle."""

    number: int  # of the attempt; names of files that it writes must contain it
    storage: "Storage"
    should_stop: Callable[[], bool]
    memory_bytes: int | None = None  # the most Arrow memory that the engine allows; None: what the task says


class MapTask(Protocol):
    """Reads inputs and divides them. Every attempt must send the same data to the same partitions.

    Otherwise data could be lost when Spark repeats a map task whose chunks some reduce tasks have already read.
    """

    @property
    def inputs(self) -> tuple[TaskInput, ...]:
        """The files to read. Engines estimate from them how long the task takes."""

    def chunks(self, attempt: ShuffleAttempt) -> Generator[Chunk, None, Any]:
        """Yields chunks and returns a small report, which reaches the driver."""


class ReduceTask(Protocol):
    def reduce(self, chunks: ArrivedChunks, attempt: ShuffleAttempt) -> Any:
        """Returns a small result, which reaches the driver."""


@dataclass(frozen=True, slots=True)
class ScratchNeed:
    """How many bytes the map tasks of a shuffle send."""

    least: int = 0  # an engine may refuse a shuffle for which there is less space
    likely: int = 0  # an engine decides by it which shuffles run at the same time


@dataclass(frozen=True, slots=True)
class ShuffleJob:
    """The map and reduce tasks of one shuffle. Partition i belongs to reduce task i."""

    job_id: str
    group_id: int
    maps: tuple[MapTask, ...]
    reduces: tuple[ReduceTask, ...]
    scratch: ScratchNeed | None = None  # None: unknown


@dataclass(frozen=True, slots=True)
class ShuffleResult:
    """The results of the tasks of one shuffle, in the order of their numbers."""

    job_id: str
    group_id: int
    reports: tuple[Any, ...]  # of the map tasks
    results: tuple[Any, ...]  # of the reduce tasks


@dataclass(frozen=True, slots=True)
class ScratchMapTask:
    """Runs a map task, and keeps its chunks in a file of a directory that all workers share."""

    job_id: str
    group_id: int  # the position of the shuffle among those of a run
    number: int
    task: MapTask
    partitions: int
    directory: str
    memory_bytes: int | None = None

    @property
    def inputs(self) -> tuple[TaskInput, ...]:
        return self.task.inputs


@dataclass(frozen=True, slots=True)
class ScratchFile:
    """The chunks that one map task has for one partition."""

    map_number: int
    path: str
    places: tuple[tuple[int, int, int], ...]  # tag, offset, size


@dataclass(frozen=True, slots=True)
class ScratchMapResult:
    job_id: str
    group_id: int
    number: int
    files: dict[int, ScratchFile]  # by partition
    report: Any


@dataclass(frozen=True, slots=True)
class ScratchReduceTask:
    """Runs a reduce task on chunks in files."""

    job_id: str
    group_id: int
    number: int
    task: ReduceTask
    files: tuple[ScratchFile, ...]
    memory_bytes: int | None = None

    @property
    def inputs(self) -> tuple[TaskInput, ...]:
        sizes = ((file.path, sum(size for _, _, size in file.places)) for file in self.files)
        return tuple(TaskInput(path, size, 0) for path, size in sizes)


@dataclass(frozen=True, slots=True)
class ScratchReduceResult:
    job_id: str
    group_id: int
    number: int
    result: Any
