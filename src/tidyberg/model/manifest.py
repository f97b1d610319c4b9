"""A manifest as its list describes it, and which of its files a plan need not see. Shipped to executors."""

from collections.abc import Mapping
from dataclasses import dataclass, field

# Of each partition field: id, physical type, logical type, scale.
Layout = tuple[tuple[int, str, str | None, int], ...]


@dataclass(frozen=True, slots=True)
class ManifestInfo:
    path: str
    length: int
    spec_id: int
    holds_deletes: bool
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int
    first_row_id: int | None


@dataclass(frozen=True, slots=True)
class RestRule:
    """Which data files rest: a plan cannot take them, so that it is enough to count them.

    Those of the right size that no delete file reaches, and all in partitions that the plan is not asked for. Marks are
    made by manifests/text_filter.py: they may hold more than was marked, never less, so that in doubt a file does not
    rest.
    """

    at_least: int  # bytes that the right size has
    at_most: int | None
    spec_id: int | None  # files of all other specs are to move to it, whatever their size; None: none moves
    small: int  # bytes below which the plan, and
    threshold: int  # below which statistics call a file small
    snapshots: tuple[int, ...]  # that the table knows; files of all others are counted as of one
    deletes_until: int = -1  # the highest sequence number of a delete file
    everywhere_until: int = -1  # of one that reaches all partitions
    deleted_partitions: bytes = b""  # marks the partitions that deletes reach as a whole
    delete_layouts: Mapping[int, frozenset[Layout]] = field(default_factory=dict)  # by spec, of those deletes
    deleted_files: bytes = b""  # marks the paths that deletes name
    selected: bytes | None = None  # marks the partitions that the plan is asked for; None: all
