"""Files that a join keeps in storage for later tasks of its job. Their names show whose they are [I6]."""

from dataclasses import dataclass

from tidyberg.execute.kernel.write.digest import DigestingSink
from tidyberg.execute.kernel.write.output import abandon_sink
from tidyberg.model.task import scratch_name
from tidyberg.storage.file_io import Storage


@dataclass(frozen=True, slots=True)
class ScratchPlace:
    """Where the scratch files of a join are."""

    job_id: str
    join: int
    directory: str

    def path(self, part: int, attempt: int, number: int, ending: str = "parquet") -> str:
        name = scratch_name(self.job_id, self.join, part, attempt, number, ending)
        return f"{self.directory.rstrip('/')}/{name}"


def write_scratch(storage: Storage, path: str, content: bytes | memoryview) -> int:
    """Writes a file and returns its size. Recovery removes what a killed attempt leaves."""
    place = storage.place(path)
    sink = DigestingSink(storage.open_output(place))
    try:
        with storage.guard(path, writing=True):
            sink.write(content)
            sink.close()
    except BaseException:
        abandon_sink(sink, storage, place)
        raise
    return memoryview(content).nbytes
