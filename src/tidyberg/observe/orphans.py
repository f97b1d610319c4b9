"""Finds orphans among listed files: what is old enough, not hidden, and not referenced by the table [I6].

Files are listed before metadata is read, so a commit in between counts. A file stays whenever its path could name a
referenced file, and also if it has the name of one in another directory: then it may be the same file, reached through
another path.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from tidyberg.errors import Unsupported
from tidyberg.model.orphans import OrphanCounts
from tidyberg.observe.locations import inside
from tidyberg.observe.metadata_heads import METADATA_FILE
from tidyberg.observe.path_keys import TEXT, path_keys
from tidyberg.observe.reachable import ReachedManifests, live_entries
from tidyberg.storage.listing import LISTED

OWN_DIRECTORY = "_tidyberg"  # hidden: neither tidyberg nor Java looks for orphans in it
_HIDDEN = r"(^|/)[_.]"
_CONTROL = r"[\x00-\x1f\x7f]"  # XML cannot carry them, so a listing may show another name
_LISTS = r"^tidyberg-[a-z-]+-[0-9a-f-]{36}\.arrow$"  # of files that a job deletes
_VERSION_HINT = "version-hint.text"
_SCHEME_AND_AUTHORITY = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?")

YOUNG, HIDDEN, UNCLEAR = "younger than the age", "hidden", "unclear name"
OLD = "older than --newer-than"
OTHER_STATE = "named by a metadata file that the table does not know"
OURS, ALIAS, MISMATCH = "of tidyberg's own jobs", "named like a referenced file", "other scheme or authority"

CANDIDATES = pa.schema([*LISTED, ("key", TEXT), ("name", TEXT), ("family", TEXT)])


@dataclass(frozen=True)
class Spellings:
    """Says which schemes and which authorities mean the same."""

    schemes: tuple[tuple[str, ...], ...]
    authorities: tuple[tuple[str, ...], ...]

    def of(self, root: str) -> tuple[str, ...]:
        """Returns how locations can begin that have the same scheme and authority as the root."""
        found = _SCHEME_AND_AUTHORITY.match(root)
        assert found is not None
        scheme, authority = found[1] or "file", found[2] or ""
        if scheme == "file":
            return ("/", "file:/")
        schemes = next((group for group in self.schemes if scheme in group), (scheme,))
        authorities = next((group for group in self.authorities if authority in group), (authority,))
        own = f"{scheme}://{authority}/"
        every = [f"{one}://{other}/" for one in schemes for other in authorities]
        # As in Java, a location without a scheme matches any. The likeliest is the last one.
        return ("/", *(one for one in every if one != own), own)


@dataclass
class ListedFiles:
    """Collects the files of some roots that may be orphans, and counts the others."""

    metadata: TableMetadata
    spellings: Spellings
    cutoff_ms: int  # files of this moment and later stay
    newer_than_ms: int | None = None
    listed: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    metadata_files: list[str] = field(default_factory=list)  # all metadata.json, of any age
    _pieces: list[pa.Table] = field(default_factory=list)

    def add(self, files: pa.Table, root: str) -> None:
        self.listed += files.num_rows
        files = self._keep(files, self._is_hidden(files["path"], root), HIDDEN)
        is_metadata = pc.match_substring(files["path"], METADATA_FILE)
        self.metadata_files += files["path"].filter(is_metadata).to_pylist()
        modified = files["modified_ms"]  # 0 means that it is not known: the file may be new
        files = self._keep(files, pc.or_(pc.greater_equal(modified, self.cutoff_ms), pc.less_equal(modified, 0)), YOUNG)
        if self.newer_than_ms is not None:
            files = self._keep(files, pc.less(files["modified_ms"], self.newer_than_ms), OLD)
        paths = files["path"]
        clear = pc.and_(inside(paths, [root]), pc.invert(pc.match_substring_regex(paths, _CONTROL)))
        files = self._keep(files, pc.invert(clear), UNCLEAR)
        paths = files["path"]
        names = pc.replace_substring_regex(paths, "^.*/", "")
        family = pa.array([self.spellings.of(root)[-1]], TEXT).take(pa.array([0] * len(paths), pa.int32()))
        columns = [*files.columns, path_keys(paths), names, pa.chunked_array([family])]
        self._pieces.append(pa.Table.from_arrays(columns, schema=CANDIDATES))

    def candidates(self) -> pa.Table:
        return pa.concat_tables([CANDIDATES.empty_table(), *self._pieces])

    def _keep(self, files: pa.Table, stays: pa.ChunkedArray, why: str) -> pa.Table:
        self.kept[why] += pc.sum(stays).as_py() or 0
        return files.filter(pc.invert(stays))

    def _is_hidden(self, paths: pa.ChunkedArray, root: str) -> pa.ChunkedArray:
        """As in Java: names that begin with `_` or `.`, but not the directories of such partition fields."""
        below = pc.utf8_slice_codeunits(paths, len(root.rstrip("/")) + 1)
        fields = {one.name for spec in self.metadata.partition_specs for one in spec.fields}
        starts = {start for name in fields if name[:1] in ("_", ".") for start in (name, quote_plus(name))}
        if starts:
            partitions = "|".join(re.escape(f"{start}=") for start in sorted(starts))
            below = pc.replace_substring_regex(below, rf"(^|/)({partitions})", r"\1-")
        return pc.or_(
            pc.match_substring_regex(below, _HIDDEN),
            pc.starts_with(pc.utf8_slice_codeunits(paths, len(root.rstrip("/")) + 1), f"{OWN_DIRECTORY}/"),
        )


@dataclass
class OrphanSearch:
    """Candidates, less everything that the table references. It only ever gets smaller [I6]."""

    files: pa.Table  # CANDIDATES
    spellings: Spellings
    kept: Counter[str]
    _aliases: set[str] = field(default_factory=set)  # keys of candidates with the name of a referenced file
    _mismatched: set[str] = field(default_factory=set)  # keys that a reference has with another scheme or authority
    _read: set[str] = field(default_factory=set)  # keys of the manifests whose entries were left out

    def leave_out_ours(self, run_ids: Collection[str], paths: Sequence[str]) -> None:
        """Leaves out what open runs have written or are about to write, and lists of files to delete."""
        names = self.files["name"]
        ours = pc.match_substring_regex(names, _LISTS)
        if run_ids:
            ours = pc.or_(ours, pc.match_substring_regex(names, "|".join(re.escape(one) for one in sorted(run_ids))))
        if paths:
            noted = path_keys(pa.chunked_array([list(paths)], TEXT)).combine_chunks()
            ours = pc.or_(ours, pc.is_in(self.files["key"], value_set=noted))
        self._keep(ours, OURS)

    def leave_out(self, table: Table, reached: ReachedManifests) -> None:
        """Leaves out all that the table's metadata and these manifests reference."""
        metadata = table.metadata
        if any(not one.manifest_list for one in metadata.snapshots):
            raise Unsupported(
                f"A snapshot of {'.'.join(table.name())} has no manifest list, so its files are not known.",
                hint="Expire this snapshot first.",
            )
        self.take_out(_named_in_metadata(table, reached))
        self.files = self.files.filter(pc.not_equal(self.files["name"], _VERSION_HINT))
        new = [info for key, info in reached.manifests.items() if key not in self._read]
        for piece in live_entries(reached.io, new, reached.check, remote=reached.remote):
            self.take_out(piece["path"])
        self._read |= set(reached.manifests)

    def keep_other_state(self, named: Iterable[pa.ChunkedArray]) -> int:
        """Keeps what a state of the table names that its catalog does not know. Returns the number of files."""
        before: int = self.files.num_rows
        for paths in named:
            self.take_out(paths)
        kept = before - int(self.files.num_rows)
        self.kept[OTHER_STATE] += kept
        return kept

    def mismatched(self) -> pa.Table:
        """Files whose path is referenced with another scheme or authority, and not with their own."""
        return self.files.filter(pc.is_in(self.files["key"], value_set=pa.array(sorted(self._mismatched), TEXT)))

    def keep_mismatched(self) -> None:
        self._keep(pc.is_in(self.files["key"], value_set=pa.array(sorted(self._mismatched), TEXT)), MISMATCH)

    def keep_aliases(self) -> None:
        """A mismatched file has the name of its reference too, and the caller has decided about it."""
        aliases = sorted(self._aliases - self._mismatched)
        self._keep(pc.is_in(self.files["key"], value_set=pa.array(aliases, TEXT)), ALIAS)

    def take_out(self, paths: pa.ChunkedArray) -> None:
        """Leaves out the files that these locations name."""
        if not self.files.num_rows or not len(paths):
            return
        paths = paths.cast(TEXT)
        keys = path_keys(paths)
        names = pc.replace_substring_regex(paths, "^.*/", "").combine_chunks()
        is_needed = pc.is_in(self.files["key"], value_set=keys.combine_chunks())
        for family in pc.unique(self.files["family"]).to_pylist():
            same = _starts_with_any(paths, self.spellings.of(family))
            if pc.all(same).as_py():
                continue
            of_family = pc.equal(self.files["family"], family)
            own = pc.is_in(self.files["key"], value_set=keys.filter(same).combine_chunks())
            odd = pc.and_(of_family, pc.and_(is_needed, pc.invert(own)))
            self._mismatched.update(self.files["key"].filter(odd).to_pylist())
            is_needed = pc.and_(is_needed, pc.invert(odd))
        self.files = self.files.filter(pc.invert(is_needed))
        alike = pc.is_in(self.files["name"], value_set=names)
        self._aliases.update(self.files["key"].filter(alike).to_pylist())

    def _keep(self, stays: pa.ChunkedArray, why: str) -> None:
        self.kept[why] += pc.sum(stays).as_py() or 0
        self.files = self.files.filter(pc.invert(stays))


def _starts_with_any(paths: pa.ChunkedArray, starts: Sequence[str]) -> pa.ChunkedArray:
    found = pc.starts_with(paths, starts[-1])
    if pc.all(found).as_py():
        return found
    for start in starts[:-1]:
        found = pc.or_(found, pc.starts_with(paths, start))
    return found


def _named_in_metadata(table: Table, reached: ReachedManifests) -> pa.ChunkedArray:
    metadata = table.metadata
    named = [table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)]
    named += [one.statistics_path for one in (*metadata.statistics, *metadata.partition_statistics)]
    named += [*reached.lists.values(), *(info.path for info in reached.manifests.values())]
    return pa.chunked_array([named], TEXT)


def referenced_among(paths: Sequence[str], table: Table, reached: ReachedManifests) -> set[str]:
    """Returns those of the paths that the table's metadata or these manifests may name."""
    if not paths:
        return set()
    given = pa.chunked_array([list(paths)], TEXT)
    keys, found = path_keys(given), set[str]()
    pieces = live_entries(reached.io, list(reached.manifests.values()), reached.check, remote=reached.remote)
    for piece in (_named_in_metadata(table, reached), *(entries["path"] for entries in pieces)):
        is_named = pc.is_in(keys, value_set=path_keys(piece).combine_chunks())
        found.update(given.filter(is_named).to_pylist())
    return found


_KINDS = (
    ("metadata_files", r"\.metadata\.json"),
    ("manifest_lists", r"^snap-.*\.avro$"),
    ("manifests", r"-m\d+\.avro$"),
    ("statistics_files", r"\.(stats|puffin)$"),
    ("data_files", r"\.(parquet|orc|avro)$"),
)


def count_orphans(files: pa.Table) -> OrphanCounts:
    names = pc.replace_substring_regex(files["path"], "^.*/", "")
    counts = dict.fromkeys([kind for kind, _ in _KINDS], 0)
    for kind, pattern in _KINDS:
        is_kind = pc.match_substring_regex(names, pattern)
        counts[kind] = pc.sum(is_kind).as_py() or 0
        names = names.filter(pc.invert(is_kind))
    return OrphanCounts(**counts, other_files=len(names), bytes=pc.sum(files["size"]).as_py() or 0)
