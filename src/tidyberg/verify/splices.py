"""Checks that pages were moved only from files that no delete applies to, by the plan and the delete files [I1]."""

from collections.abc import Callable, Collection, Iterator, Sequence

from tidyberg.model.plan import DeleteFile, FileGroup, InputFile
from tidyberg.model.task import TaskResult

PathsOf = Callable[[DeleteFile], Collection[str]]  # the data files whose rows a position delete file names


def splice_problems(
    group: FileGroup, result: TaskResult, deletes: Sequence[DeleteFile], paths_of: PathsOf
) -> Iterator[str]:
    """Yields problems of files whose pages were moved. `deletes` are those of the plan.

    Only position deletes that may be of a spliced file are read again, by `paths_of`: those of a whole partition.
    """
    spliced = frozenset(result.spliced_files)
    if bool(spliced) != bool(result.bytes_spliced):
        yield f"{result.bytes_spliced} bytes of pages were moved as they are, from {len(spliced)} files"
    if spliced and group.output_spec_id is not None:
        yield "pages of it were moved as they are, but the plan sorts its rows into other partitions"
    strange = spliced - {file.path for file in group.files}
    if strange:
        yield f"pages of {min(strange)} were moved, which is no file of it"
    applied = [deletes[position] for position in group.deletes]
    for file in group.files if applied else ():
        if file.path in spliced and (delete := _touching(file, applied, paths_of)) is not None:
            yield f"pages of {file.path} were moved as they are, but {delete.path} may delete rows of it"


def _touching(file: InputFile, deletes: Sequence[DeleteFile], paths_of: PathsOf) -> DeleteFile | None:
    vectors = [delete for delete in deletes if delete.kind == "dv" and _may_apply(delete, file)]
    for delete in deletes:
        # Spec: where a deletion vector applies to a file, its position delete files are ignored.
        if not delete.records or not _may_apply(delete, file) or (vectors and delete.kind == "position"):
            continue
        if delete.kind != "position" or file.path in paths_of(delete):
            return delete
    return None


def _may_apply(delete: DeleteFile, file: InputFile) -> bool:
    """Compares sequence numbers. An equality delete may apply to every older file [I3]."""
    if delete.kind == "equality":
        return file.sequence_number < delete.sequence_number
    return file.sequence_number <= delete.sequence_number and delete.referenced_data_file in (None, file.path)
