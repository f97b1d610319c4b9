"""A manifest as its manifest list describes it, and the rule for files that a plan only counts. It is shipped."""

from collections.abc import Mapping
from dataclasses import dataclass, field

# For each partition field: id, physical type, logical type, scale.
Layout = tuple[tuple[int, str, str | None, int], ...]


@dataclass(frozen=True, slots=True)
class ManifestInfo:
    path: str
    length: int
    spec_id: int
    holds_deletes: bool
    sequence_number: int
    added_snapshot_id: int
    first_row_id: int | None


@dataclass(frozen=True, slots=True)
class CountedFileRule:
    """Decides which data files are only counted, because no plan can select them.

    A file is only counted if it has the right size and no delete file applies to it, or if the plan does not select its
    partition. Marks (manifests/text_filter.py) are Bloom filters: after a false positive, a file is listed in full.
    """

    at_least: int  # the smallest right size, in bytes
    at_most: int | None
    spec_id: int | None  # files of all other specs move to this one, whatever their size; None: no file moves
    small: int  # the plan calls a file below this many bytes small
    threshold: int  # the statistics call a file below this many bytes small
    snapshots: tuple[int, ...]  # the table's snapshots; files of all others are counted together
    deletes_until: int = -1  # the highest sequence number of a delete file
    everywhere_until: int = -1  # the same for delete files that apply to all partitions
    deleted_partitions: bytes = b""  # marks of the partitions that deletes apply to as a whole
    delete_layouts: Mapping[int, frozenset[Layout]] = field(default_factory=dict)  # the same, by spec
    deleted_files: bytes = b""  # marks of the paths that deletes name
    selected: bytes | None = None  # marks of the partitions that the plan selects; None: all
