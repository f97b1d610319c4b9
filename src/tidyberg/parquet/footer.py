"""Parses the footer of a Parquet file: its schema, its row groups, and the byte ranges of their parts."""

from dataclasses import dataclass
from itertools import pairwise

from tidyberg.parquet.errors import BadThriftError, CannotCopy, DamagedFooter
from tidyberg.parquet.fields import (
    ChunkField,
    ElementField,
    FileField,
    GroupField,
    MetadataField,
    StatisticsField,
    items,
    known_only,
    number,
    optional_number,
    structs,
    substruct,
    text,
)
from tidyberg.parquet.thrift import BINARY, I64, Struct, read_struct, write_struct

MAGIC = b"PAR1"
ENCRYPTED_MAGIC = b"PARE"
ENDING = 8  # the footer's length and the magic number
INT96 = 3
REQUIRED, OPTIONAL, REPEATED = range(3)
BYTE_ARRAY, FIXED_BYTE_ARRAY = 6, 7
_SIZES = {0: 1, 1: 4, 2: 8, INT96: 12, 4: 4, 5: 8}  # of a value, by its type
_DEEPEST_SCHEMA = 64


@dataclass(frozen=True, slots=True)
class Extent:
    """A byte range of a file."""

    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """A column chunk: one column of a row group."""

    struct: Struct
    metadata: Struct
    pages: Extent  # its dictionary and data pages
    first_data_page: int
    column_index: Extent | None
    offset_index: Extent | None
    bloom_offset: int | None
    bloom_length: int | None  # not every writer records it


@dataclass(frozen=True, slots=True)
class RowGroup:
    struct: Struct
    chunks: tuple[ColumnChunk, ...]  # empty if there are no rows
    rows: int

    @property
    def stored_bytes(self) -> int:
        return sum(chunk.pages.length for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class SchemaLeaf:
    """A primitive column of the file's schema."""

    path: tuple[bytes, ...]
    type: int
    repetition_levels: int  # the number of lists and maps that contain it
    definition_levels: int  # the number of fields on its path that may be absent
    value_bytes: int | None  # the size of every value; None if sizes differ

    @property
    def repeated(self) -> bool:
        return self.repetition_levels > 0


@dataclass(frozen=True, slots=True)
class Footer:
    struct: Struct
    schema: list[Struct]  # depth first, the root first
    row_groups: tuple[RowGroup, ...]
    rows: int
    created_by: bytes | None
    key_values: dict[bytes, bytes | None]


def as_ending(footer: Struct) -> bytes:
    """Returns the last bytes of a Parquet file with this footer: the footer, its length, the magic number."""
    content = write_struct(footer)
    return content + len(content).to_bytes(4, "little") + MAGIC


def footer_length(ending: bytes, size: int) -> int:
    """Returns the length of the footer, which is in the last bytes of a file."""
    if ending[-4:] == ENCRYPTED_MAGIC:
        raise CannotCopy("it is encrypted")
    length = int.from_bytes(ending[-8:-4], "little")
    if ending[-4:] != MAGIC or not 0 < length <= size - ENDING - len(MAGIC):
        raise CannotCopy("it does not end like a Parquet file")
    return length


def parse_footer(content: bytes, size: int) -> Footer:
    """Parses a footer. Raises CannotCopy unless all byte ranges in it lie within the `size` bytes of the file."""
    try:
        struct, end = read_struct(content)
    except BadThriftError as error:
        raise CannotCopy(f"its footer is damaged: {error}") from None
    if end != len(content):
        raise CannotCopy("its footer has bytes after its end")
    known_only(struct, FileField.KNOWN, "its footer")
    if FileField.ENCRYPTION in struct or FileField.SIGNING_KEY in struct:
        raise CannotCopy("it is encrypted")
    schema = structs(struct, FileField.SCHEMA, "the schema")
    leaves = schema_leaves(schema)
    data = Extent(len(MAGIC), size - ENDING - len(content) - len(MAGIC))
    row_groups = tuple(
        _row_group(group, leaves, data) for group in structs(struct, FileField.ROW_GROUPS, "the list of row groups")
    )
    rows = number(struct, FileField.ROWS, "the number of rows")
    if sum(group.rows for group in row_groups) != rows:
        raise CannotCopy("its row groups do not hold the rows that its footer counts")
    _check_overlap([chunk.pages for group in row_groups for chunk in group.chunks])
    return Footer(
        struct=struct,
        schema=schema,
        row_groups=row_groups,
        rows=rows,
        created_by=text(struct, FileField.CREATED_BY, "the writer's name"),
        key_values=_key_values(struct),
    )


def schema_leaves(schema: list[Struct]) -> list[SchemaLeaf]:
    if not schema:
        raise CannotCopy("its footer has no schema")
    found: list[SchemaLeaf] = []
    end = _collect(schema, 0, SchemaLeaf((), -1, 0, 0, None), found, 0)
    if end != len(schema):
        raise CannotCopy("its footer is damaged: the schema has fields that belong to no group")
    return found


def _collect(schema: list[Struct], index: int, above: SchemaLeaf, found: list[SchemaLeaf], depth: int) -> int:
    """Collects the leaves of the element at `index`. Returns the index of the next element."""
    if index >= len(schema) or depth > _DEEPEST_SCHEMA:
        raise CannotCopy("its footer is damaged: the schema ends too early or is too deep")
    element = known_only(schema[index], ElementField.KNOWN, "its schema")
    children = optional_number(element, ElementField.CHILDREN, "the number of fields of a group")
    kind = optional_number(element, ElementField.TYPE, "a type")
    here = above
    if depth:
        repetition = number(element, ElementField.REPETITION, "the repetition of a field")
        here = SchemaLeaf(
            path=(*above.path, text(element, ElementField.NAME, "a field's name") or b""),
            type=-1 if kind is None else kind,
            repetition_levels=above.repetition_levels + (repetition == REPEATED),
            definition_levels=above.definition_levels + (repetition != REQUIRED),
            value_bytes=optional_number(element, ElementField.TYPE_LENGTH, "the length of fixed bytes")
            if kind == FIXED_BYTE_ARRAY
            else _SIZES.get(-1 if kind is None else kind),
        )
    index += 1
    if kind is not None:
        found.append(here)
        return index
    for _ in range(children or 0):
        index = _collect(schema, index, here, found, depth + 1)
    return index


def _row_group(struct: Struct, leaves: list[SchemaLeaf], data: Extent) -> RowGroup:
    known_only(struct, GroupField.KNOWN, "one of its row groups")
    columns = structs(struct, GroupField.COLUMNS, "the list of columns")
    if len(columns) != len(leaves):
        raise CannotCopy("one of its row groups does not have the columns of the schema")
    rows = number(struct, GroupField.ROWS, "the number of rows of a row group")
    if rows == 0:
        return RowGroup(struct, (), rows)  # nothing to copy
    chunks = [_chunk(column, leaf, rows, data) for column, leaf in zip(columns, leaves, strict=True)]
    return RowGroup(struct, tuple(chunks), rows)


def _chunk(struct: Struct, leaf: SchemaLeaf, rows: int, data: Extent) -> ColumnChunk:
    name = b".".join(leaf.path).decode(errors="replace")
    known_only(struct, ChunkField.KNOWN, f"column {name}")
    if ChunkField.CRYPTO in struct or ChunkField.ENCRYPTED_METADATA in struct:
        raise CannotCopy(f"column {name} is encrypted")
    if ChunkField.FILE_PATH in struct:
        raise CannotCopy(f"column {name} lies in another file")
    metadata = substruct(struct, ChunkField.METADATA, f"the metadata of column {name}")
    if metadata is None:
        raise CannotCopy(f"its footer does not describe column {name}")
    known_only(metadata, MetadataField.KNOWN, f"column {name}")
    check_for_arrow(metadata, leaf, name)
    if tuple(items(metadata, MetadataField.PATH, BINARY, f"the path of column {name}")) != leaf.path:
        raise CannotCopy(f"column {name} has another path than in the schema")
    if leaf.type == INT96:
        raise CannotCopy(f"column {name} is of the deprecated type INT96")
    values = number(metadata, MetadataField.VALUES, f"the number of values of column {name}")
    if (values != rows and not leaf.repeated) or values < rows:
        raise CannotCopy(f"column {name} has {values} values in {rows} rows")
    statistics = substruct(metadata, MetadataField.STATISTICS, f"the statistics of column {name}") or {}
    if not bounds_fit(statistics, leaf.value_bytes):
        raise CannotCopy(f"the bounds of column {name} are not as long as its values")
    nulls = optional_number(statistics, StatisticsField.NULLS, f"the number of nulls of column {name}") or 0
    if nulls > (values if leaf.definition_levels else 0):
        raise CannotCopy(f"its footer counts more nulls in column {name} than there can be")
    pages, first_data_page = _pages(metadata, name, data)
    bloom = optional_number(metadata, MetadataField.BLOOM, "the offset of a bloom filter")
    bloom_length = optional_number(metadata, MetadataField.BLOOM_LENGTH, "the length of a bloom filter")
    if bloom is not None:
        _within(Extent(bloom, bloom_length or 1), data, f"the bloom filter of column {name}")
    return ColumnChunk(
        struct=struct,
        metadata=metadata,
        pages=pages,
        first_data_page=first_data_page,
        column_index=_index(struct, ChunkField.COLUMN_INDEX, f"the column index of column {name}", data),
        offset_index=_index(struct, ChunkField.OFFSET_INDEX, f"the offset index of column {name}", data),
        bloom_offset=bloom,
        bloom_length=bloom_length,
    )


def check_for_arrow(metadata: Struct, leaf: SchemaLeaf, name: str) -> None:
    """Raises DamagedFooter if a type or size statistics contradict the schema: Arrow aborts the process over them."""
    if number(metadata, MetadataField.TYPE, f"the type of column {name}") != leaf.type:
        raise DamagedFooter(f"column {name} has another type than in the schema")
    sizes = substruct(metadata, MetadataField.SIZE_STATISTICS, f"the sizes of column {name}") or {}
    repetitions = items(sizes, 2, I64, f"the sizes of column {name}")
    definitions = items(sizes, 3, I64, f"the sizes of column {name}")
    fits = len(repetitions) in (0, leaf.repetition_levels + 1) and len(definitions) in (0, leaf.definition_levels + 1)
    if not fits or (1 in sizes and leaf.type != BYTE_ARRAY):
        raise DamagedFooter(f"the sizes of column {name} do not fit the schema")


def bounds_fit(statistics: Struct, value_bytes: int | None) -> bool:
    """Returns True if bounds are as long as values. Otherwise Arrow aborts the process when it reads them.

    arrow-rs writes such bounds: it truncates those of long fixed-length values.
    """
    bounds = [statistics[field] for field in StatisticsField.BOUNDS if field in statistics]
    return all(kind == BINARY and value_bytes in (None, len(value)) for kind, value in bounds)


def _pages(metadata: Struct, name: str, data: Extent) -> tuple[Extent, int]:
    length = number(metadata, MetadataField.COMPRESSED, f"the length of column {name}")
    first = number(metadata, MetadataField.DATA_PAGE, f"the offset of column {name}")
    dictionary = optional_number(metadata, MetadataField.DICTIONARY_PAGE, f"the dictionary offset of column {name}")
    # Some writers set zero if there is no dictionary.
    pages = Extent(min(first, dictionary) if dictionary else first, length)
    _within(pages, data, f"column {name}")
    if not pages.offset <= first < pages.end or (dictionary and dictionary >= first):
        raise CannotCopy(f"the pages of column {name} are not in order")
    index_page = optional_number(metadata, MetadataField.INDEX_PAGE, f"the offset of an index page of column {name}")
    if index_page and not pages.offset <= index_page < pages.end:
        raise CannotCopy(f"an index page of column {name} is not among its pages")
    return pages, first


def _index(struct: Struct, field: int, what: str, data: Extent) -> Extent | None:
    offset = optional_number(struct, field, f"the offset of {what}")
    length = optional_number(struct, field + 1, f"the length of {what}")
    if offset is None or not length:
        return None
    extent = Extent(offset, length)
    _within(extent, data, what)
    return extent


def _within(extent: Extent, data: Extent, what: str) -> None:
    if extent.offset < data.offset or extent.end > data.end:
        raise CannotCopy(f"{what} would lie outside of the file")


def _check_overlap(extents: list[Extent]) -> None:
    ordered = sorted(extents, key=lambda extent: (extent.offset, extent.end))
    for before, after in pairwise(ordered):
        if after.offset < before.end:
            raise CannotCopy("its columns overlap")


def _key_values(struct: Struct) -> dict[bytes, bytes | None]:
    found: dict[bytes, bytes | None] = {}
    for pair in structs(struct, FileField.KEY_VALUES, "the list of properties"):
        key = text(known_only(pair, frozenset((1, 2)), "a property"), 1, "a property's name")
        if key is None or key in found:
            raise CannotCopy("its footer is damaged: a property has no name, or the name of another")
        found[key] = text(pair, 2, "a property")
    return found
