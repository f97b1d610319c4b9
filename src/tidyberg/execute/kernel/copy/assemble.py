"""Plans a copy: which row groups go into which output, and what manifests will say about the outputs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.lineage import with_lineage
from tidyberg.execute.kernel.columns.metrics import described_file
from tidyberg.execute.kernel.columns.project import Leaf, leaves
from tidyberg.execute.kernel.columns.single_values import is_truncatable
from tidyberg.execute.kernel.copy.eligibility import CommonFooter
from tidyberg.execute.kernel.copy.lineage import RowGroupWithLineage, inherited_lineage
from tidyberg.execute.kernel.copy.merge import MAX_ROW_GROUPS, CopiedRowGroup, merge
from tidyberg.execute.kernel.copy.nans import with_nans
from tidyberg.execute.kernel.read.source import Source
from tidyberg.execute.kernel.write.output import output_path
from tidyberg.execute.kernel.write.sizing import max_outputs_of_attempt
from tidyberg.model.task import Task, WrittenFile
from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.fields import MetadataField, StatisticsField, substruct
from tidyberg.parquet.footer import ColumnChunk
from tidyberg.storage.assembly import AssembledFile, Assembly


@dataclass(frozen=True)
class PlannedCopy:
    """What to write, and what manifests will say about each file."""

    assembly: Assembly
    written: tuple[WrittenFile, ...]


def assemble(task: Task, attempt: int, sources: Sequence[Source], common: CommonFooter) -> PlannedCopy:
    pieces = [_piece(task, source, number, common) for source in sources for number in source.groups_with_rows]
    if sum(len(piece.added.whole or b"") for piece in pieces if piece.added is not None) > task.memory_bytes:
        raise CannotCopy("the row lineage to add does not fit into the memory of the task")
    schema = pa.ipc.read_schema(pa.BufferReader(task.arrow_schema))
    all_leaves = leaves(with_lineage(schema) if task.lineage else schema)
    files, described = [], []
    for number, part in enumerate(_divide(task, pieces)):
        if len(part) > MAX_ROW_GROUPS:
            raise CannotCopy(f"an output would have {len(part)} row groups; some readers open at most {MAX_ROW_GROUPS}")
        merged = merge(part, common)
        path = output_path(task, attempt, number)
        files.append(AssembledFile(path, merged.segments))
        assert files[-1].size == merged.size
        written = _described(task, path, merged.size, part, all_leaves, merged.split_offsets)
        described.append(replace(written, footer_digest=merged.footer_digest))
    return PlannedCopy(Assembly(tuple(files)), tuple(described))


def _piece(task: Task, source: Source, number: int, common: CommonFooter) -> CopiedRowGroup:
    inherits = task.lineage and source.input.path not in common.stores_lineage
    return CopiedRowGroup(source, number, inherited_lineage(source, number, task.write) if inherits else None)


def _divide(task: Task, pieces: Sequence[CopiedRowGroup]) -> list[list[CopiedRowGroup]]:
    """Divides row groups among outputs of similar size, as many as planned unless a size limit forbids it."""
    total = sum(piece.group.stored_bytes for piece in pieces)
    wanted = min(max(1, round(total / task.target_bytes)), max(1, task.outputs))
    files = min(max(wanted, math.ceil(total / task.max_bytes)), max_outputs_of_attempt(task.outputs))
    parts: dict[int, list[CopiedRowGroup]] = {}
    before = 0
    for piece in pieces:
        middle = before + piece.group.stored_bytes / 2
        parts.setdefault(int(middle * files / total), []).append(piece)
        before += piece.group.stored_bytes
    return list(parts.values())


def _described(
    task: Task, path: str, size: int, part: list[CopiedRowGroup], all_leaves: list[Leaf], split_offsets: tuple[int, ...]
) -> WrittenFile:
    """Metrics come from the inputs' footers, as far as their writer can be trusted. NaN counts come from manifests."""
    modes = dict(task.write.metrics_modes)
    for index, leaf in enumerate(all_leaves):
        mode = modes.get(leaf.field_id, "none") if leaf.field_id is not None else "none"
        truncatable = is_truncatable(leaf.type)
        if leaf.field_id is None or mode == "none" or (truncatable and mode != "full"):
            continue
        chunks = [piece.group.chunks[index] for piece in part if index < len(piece.group.chunks)]
        if not all(_has_exact_bounds(chunk, assume_exact=not truncatable) for chunk in chunks):
            modes[leaf.field_id] = "counts"
    row_groups = [_arrow_row_group(piece) for piece in part]
    described = described_file(path, size, row_groups, all_leaves, {}, modes, split_offsets, own=False)
    return with_nans(described, part, all_leaves, modes)


def _arrow_row_group(piece: CopiedRowGroup) -> pq.RowGroupMetaData | RowGroupWithLineage:
    group = piece.source.arrow_footer.row_group(piece.number)
    return group if piece.added is None else RowGroupWithLineage(group, piece.added.arrow_footer.row_group(0))


def _has_exact_bounds(chunk: ColumnChunk, *, assume_exact: bool) -> bool:
    """Whether bounds are values of the column, because Spark answers MIN and MAX with them.

    Polars truncates bounds without saying so. `assume_exact` is the answer if the footer does not say.
    """
    statistics = substruct(chunk.metadata, MetadataField.STATISTICS, "the statistics of a column") or {}
    if not any(bound in statistics for bound in StatisticsField.BOUNDS):
        return True
    flags = (StatisticsField.LOWER_IS_EXACT, StatisticsField.UPPER_IS_EXACT)
    return all(statistics.get(flag, (0, assume_exact))[1] is True for flag in flags)
