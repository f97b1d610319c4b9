"""Chooses the files to measure: files that a plan would rewrite, up to a number of bytes."""

from collections.abc import Iterable
from dataclasses import dataclass

from tidyberg.commit.entries import Identity
from tidyberg.model.plan import DeleteFile, FileGroup, InputFile, Plan


@dataclass(frozen=True, slots=True)
class BenchmarkSample:
    files: tuple[InputFile, ...]
    deletes: tuple[DeleteFile, ...]
    files_left_out: int

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def identities(self) -> frozenset[Identity]:
        return frozenset([*((file.path, None, None) for file in self.files), *(d.identity for d in self.deletes)])


def choose_sample(plan: Plan, max_bytes: int) -> BenchmarkSample:
    """Takes whole groups while they fit, then as many files of the next group as fit. Takes at least two files."""
    files: list[InputFile] = []
    groups: list[FileGroup] = []
    room = max_bytes
    for group in plan.groups:
        taken = list(_fitting(group.files, room)) if group.bytes > room else list(group.files)
        if len(taken) < len(group.files) and not files:
            taken = list(group.files[: max(2, len(taken))])
        if not taken:
            break
        files += taken
        groups.append(group)
        room -= sum(file.size for file in taken)
        if len(taken) < len(group.files):
            break
    needed = sorted({position for group in groups for position in group.deletes})
    planned = sum(len(group.files) for group in plan.groups)
    return BenchmarkSample(tuple(files), tuple(plan.deletes[position] for position in needed), planned - len(files))


def _fitting(files: Iterable[InputFile], room: int) -> Iterable[InputFile]:
    for file in files:
        room -= file.size
        if room < 0:
            return
        yield file
