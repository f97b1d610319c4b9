"""Entries of many manifests in one Arrow table: each manifest gets its own entries, in any order."""

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidyberg.manifests import entries as reading
from tidyberg.manifests.entries import ManifestEntries, joined, read_entries
from tidyberg.testing import SAMPLE_SCHEMA, ForgedEntry, ForgedManifest, forge_static_table

pieces = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12)


@given(pieces)
def test_manifests_are_joined_in_their_order(cuts: list[tuple[int, int, int]]) -> None:
    sources = [pa.table({"path": [f"{number}-{row}" for row in range(6)]}) for number in range(3)]
    manifests = [
        ManifestEntries((), sources[number], rows=range(min(start, end), max(start, end)))
        for number, start, end in cuts
    ]
    assert joined(manifests, ["path"]) == pa.concat_tables([manifest.table for manifest in manifests])


@given(st.lists(st.integers(0, 6), min_size=2, max_size=6).map(sorted))
def test_adjacent_rows_of_one_table_stay_one_slice(cuts: list[int]) -> None:
    source = pa.table({"path": [f"{row}" for row in range(6)]})
    shares = [ManifestEntries((), source, rows=range(*cut)) for cut in pairwise(cuts)]
    together = joined(shares, ["path"])
    assert together == source.slice(cuts[0], cuts[-1] - cuts[0])
    assert together["path"].num_chunks <= 1


def test_manifests_of_one_table_share_its_bytes() -> None:
    source = pa.table({"size": list(range(10))})
    shares = [ManifestEntries((), source, rows=rows) for rows in (range(3), range(3, 3), range(3, 10))]
    assert sum(share.nbytes for share in shares) == ManifestEntries((), source).nbytes == source.nbytes
    assert ManifestEntries((), source.slice(0, 0)).nbytes == 0


@pytest.mark.parametrize("at_once", [1, 10**9])
def test_each_manifest_has_its_own_entries_for_any_batch_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(reading, "_BATCH_BYTES", at_once)
    names = [["a", "b"], [], ["c"], ["d", "e", "f"]]
    manifests = [ForgedManifest([ForgedEntry(name) for name in some]) for some in names]
    forge_static_table(tmp_path, manifests, schema=SAMPLE_SCHEMA)
    files = [(path.name, path.read_bytes(), False) for path in sorted(tmp_path.glob("manifest-0*.avro"))]
    found = [entries for _, entries in read_entries(files)]
    assert [entries.table["path"].to_pylist() for entries in found] == names
    assert joined(found[::-1], ["path"])["path"].to_pylist() == ["d", "e", "f", "c", "a", "b"]
