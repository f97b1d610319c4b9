"""NaN counts and bounds of copied float columns. Footers do not count NaN, so counts come from the inputs' manifests.

If a file has no NaN, the footer has the bounds of each row group. If it has NaN, the footer cannot be trusted, because
writers treat NaN differently. Then the bounds come from the manifest, and are valid for the whole file only.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.project import Leaf
from tidyberg.execute.kernel.columns.single_values import encode, normalised
from tidyberg.execute.kernel.copy.merge import CopiedRowGroup
from tidyberg.execute.kernel.read.source import Source
from tidyberg.model.task import NanFacts, WrittenFile

_FORMATS = {4: "<f", 8: "<d"}


@dataclass(frozen=True)
class _FloatBounds:
    """The lowest and the highest number; both None if there are no numbers."""

    lower: float | None = None
    upper: float | None = None


_NO_NUMBERS = _FloatBounds()


def with_nans(
    written: WrittenFile, part: Sequence[CopiedRowGroup], leaves: Sequence[Leaf], modes: dict[int, str]
) -> WrittenFile:
    """Adds NaN counts, and bounds if all inputs have them, in the table's metrics modes [I9]."""
    nans, lower, upper = dict(written.nan_value_counts), dict(written.lower_bounds), dict(written.upper_bounds)
    inputs = _inputs(part)
    for index, leaf in enumerate(leaves):
        mode = modes.get(leaf.field_id, "none") if leaf.field_id is not None else "none"
        if leaf.field_id is None or mode == "none" or leaf.repeated or not pa.types.is_floating(leaf.type):
            continue
        found = [_nans_and_bounds(source, numbers, index, leaf) for source, numbers in inputs]
        known = [each for each in found if each is not None]
        if len(known) < len(found):
            continue
        nans[leaf.field_id] = sum(count for count, _ in known)
        # Iceberg's Java code assumes no nulls if they are not counted: by the bounds, all rows would match a filter.
        bounds = _around([bounds for _, bounds in known])
        may_have_bounds = mode != "counts" and leaf.field_id in written.null_value_counts
        if may_have_bounds and bounds is not None and bounds != _NO_NUMBERS:
            lower[leaf.field_id] = encode(bounds.lower, leaf.type)
            upper[leaf.field_id] = encode(bounds.upper, leaf.type)
    return replace(written, nan_value_counts=nans, lower_bounds=lower, upper_bounds=upper)


def _inputs(part: Sequence[CopiedRowGroup]) -> list[tuple[Source, list[int]]]:
    """Returns each input file with its row groups in this output."""
    numbers: dict[str, list[int]] = {}
    sources: dict[str, Source] = {}
    for piece in part:
        sources[piece.source.input.path] = piece.source
        numbers.setdefault(piece.source.input.path, []).append(piece.number)
    return [(sources[path], numbers[path]) for path in sources]


def _nans_and_bounds(
    source: Source, numbers: list[int], index: int, leaf: Leaf
) -> tuple[int, _FloatBounds | None] | None:
    """Returns the number of NaN in these row groups, and the bounds of the numbers; None for what is unknown."""
    facts = next((fact for fact in source.input.nans if fact.field_id == leaf.field_id), None)
    if facts is None:
        return None
    chunks = [source.arrow_footer.row_group(number).column(index) for number in numbers]
    if facts.count == 0:
        return 0, _around([_in_footer(chunk) for chunk in chunks])
    if len(numbers) < len(source.groups_with_rows):
        return None  # these row groups hold an unknown part of the file's NaN
    nulls = [_nulls(chunk) for chunk in chunks]
    if None in nulls:
        return facts.count, None
    not_null = sum(chunk.num_values for chunk in chunks) - sum(count or 0 for count in nulls)
    if facts.count > not_null:
        return None  # impossible, so the manifest is wrong
    if facts.count == not_null:
        return facts.count, _NO_NUMBERS
    return facts.count, _in_manifest(facts, chunks, leaf)


def _in_manifest(facts: NanFacts, chunks: Sequence[pq.ColumnChunkMetaData], leaf: Leaf) -> _FloatBounds | None:
    in_manifest = _bounds(_decoded(facts.lower, leaf), _decoded(facts.upper, leaf))
    in_footers = _around([_in_footer(chunk) for chunk in chunks])
    # If the footer contradicts the manifest, neither can be trusted.
    return in_manifest if in_footers in (in_manifest, None) else None


def _in_footer(chunk: pq.ColumnChunkMetaData) -> _FloatBounds | None:
    if _nulls(chunk) == chunk.num_values:
        return _NO_NUMBERS
    statistics = chunk.statistics if chunk.is_stats_set else None
    if statistics is None or not statistics.has_min_max:
        return None
    return _bounds(statistics.min_raw, statistics.max_raw)


def _nulls(chunk: pq.ColumnChunkMetaData) -> int | None:
    statistics = chunk.statistics if chunk.is_stats_set else None
    return statistics.null_count if statistics is not None and statistics.has_null_count else None


def _bounds(lower: float | None, upper: float | None) -> _FloatBounds | None:
    lower, upper = normalised(lower, lower=True), normalised(upper, lower=False)
    return None if lower is None or upper is None or lower > upper else _FloatBounds(lower, upper)


def _around(parts: Sequence[_FloatBounds | None]) -> _FloatBounds | None:
    """Returns the bounds around all parts; None if those of one part are unknown."""
    if None in parts:
        return None
    lowers = [part.lower for part in parts if part is not None and part.lower is not None]
    uppers = [part.upper for part in parts if part is not None and part.upper is not None]
    return _FloatBounds(min(lowers, default=None), max(uppers, default=None))


def _decoded(bound: bytes | None, leaf: Leaf) -> float | None:
    if bound is None or len(bound) * 8 != leaf.type.bit_width:
        return None
    value: float = struct.unpack(_FORMATS[len(bound)], bound)[0]
    return value
