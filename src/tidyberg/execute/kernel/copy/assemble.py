"""Turns inputs that may be copied into an assembly: which row groups go where, and what manifests say of that."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.lineage import with_lineage
from tidyberg.execute.kernel.columns.metrics import described_file
from tidyberg.execute.kernel.columns.project import Leaf, leaves
from tidyberg.execute.kernel.columns.single_values import is_truncatable
from tidyberg.execute.kernel.copy.lineage import WideRowGroup, inherited_lineage
from tidyberg.execute.kernel.copy.merge import MOST_ROW_GROUPS, Piece, merge
from tidyberg.execute.kernel.copy.nans import with_nans
from tidyberg.execute.kernel.copy.proof import Common
from tidyberg.execute.kernel.read.source import Source
from tidyberg.execute.kernel.write.output import output_path
from tidyberg.execute.kernel.write.sizing import most_outputs
from tidyberg.model.task import Task, WrittenFile
from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.fields import MetadataField, StatisticsField, substruct
from tidyberg.parquet.footer import Chunk
from tidyberg.storage.assembly import AssembledFile, Assembly


@dataclass(frozen=True)
class PlannedCopy:
    """What to write, and what manifests will say of each file."""

    assembly: Assembly
    written: tuple[WrittenFile, ...]


def assemble(task: Task, attempt: int, sources: Sequence[Source], common: Common) -> PlannedCopy:
    pieces = [_piece(task, source, number, common) for source in sources for number in source.groups_with_rows]
    if sum(len(piece.added.whole or b"") for piece in pieces if piece.added is not None) > task.memory_bytes:
        raise CannotCopy("the lineage of its rows does not fit into memory")
    schema = pa.ipc.read_schema(pa.BufferReader(task.arrow_schema))
    all_leaves = leaves(with_lineage(schema) if task.lineage else schema)
    files, described = [], []
    for number, part in enumerate(_cut(task, pieces)):
        if len(part) > MOST_ROW_GROUPS:
            raise CannotCopy(f"an output of it would have {len(part)} row groups, more than every reader can open")
        merged = merge(part, common)
        path = output_path(task, attempt, number)
        files.append(AssembledFile(path, merged.segments))
        assert files[-1].size == merged.size
        written = _described(task, path, merged.size, part, all_leaves, merged.split_offsets)
        described.append(replace(written, footer_digest=merged.footer_digest))
    return PlannedCopy(Assembly(tuple(files)), tuple(described))


def _piece(task: Task, source: Source, number: int, common: Common) -> Piece:
    inherits = task.lineage and source.input.path not in common.stores_lineage
    return Piece(source, number, inherited_lineage(source, number, task.write) if inherits else None)


def _cut(task: Task, pieces: Sequence[Piece]) -> list[list[Piece]]:
    """As many outputs as the plan promised, unless sizes forbid it, and as equal as whole row groups allow."""
    total = sum(piece.group.stored_bytes for piece in pieces)
    wanted = min(max(1, round(total / task.target_bytes)), max(1, task.outputs))
    files = min(max(wanted, math.ceil(total / task.max_bytes)), most_outputs(task.outputs))
    parts: dict[int, list[Piece]] = {}
    before = 0
    for piece in pieces:
        middle = before + piece.group.stored_bytes / 2
        parts.setdefault(int(middle * files / total), []).append(piece)
        before += piece.group.stored_bytes
    return list(parts.values())


def _described(
    task: Task, path: str, size: int, part: list[Piece], all_leaves: list[Leaf], split_offsets: tuple[int, ...]
) -> WrittenFile:
    """Metrics come from the inputs' own footers, each judged by who wrote it; only of NaN manifests know more."""
    modes = dict(task.write.metrics_modes)
    for index, leaf in enumerate(all_leaves):
        mode = modes.get(leaf.field_id, "none") if leaf.field_id is not None else "none"
        cuttable = is_truncatable(leaf.type)
        if leaf.field_id is None or mode == "none" or (cuttable and mode != "full"):
            continue
        chunks = [piece.group.chunks[index] for piece in part if index < len(piece.group.chunks)]
        if not all(_has_exact_bounds(chunk, unless_told=not cuttable) for chunk in chunks):
            modes[leaf.field_id] = "counts"
    row_groups = [_arrow_row_group(piece) for piece in part]
    described = described_file(path, size, row_groups, all_leaves, {}, modes, split_offsets, own=False)
    return with_nans(described, part, all_leaves, modes)


def _arrow_row_group(piece: Piece) -> pq.RowGroupMetaData | WideRowGroup:
    group = piece.source.arrow_footer.row_group(piece.number)
    return group if piece.added is None else WideRowGroup(group, piece.added.arrow_footer.row_group(0))


def _has_exact_bounds(chunk: Chunk, *, unless_told: bool) -> bool:
    """Whether bounds are values of the column: Spark answers MIN and MAX with them. Polars cuts some and is silent."""
    statistics = substruct(chunk.metadata, MetadataField.STATISTICS, "the statistics of a column") or {}
    if not any(bound in statistics for bound in StatisticsField.BOUNDS):
        return True
    flags = (StatisticsField.LOWER_IS_EXACT, StatisticsField.UPPER_IS_EXACT)
    return all(statistics.get(flag, (0, unless_told))[1] is True for flag in flags)
