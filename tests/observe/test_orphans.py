"""Random trees and random references: what is left over is what a simple model says."""

import re
from collections import Counter
from urllib.parse import unquote

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadataV2

from tidyberg.model.orphans import TableLocations
from tidyberg.model.table import TableRef
from tidyberg.observe.orphans import ListedFiles, OrphanSearch, Spellings
from tidyberg.observe.path_keys import TEXT
from tidyberg.observe.shared_locations import shared_locations
from tidyberg.storage.listing import LISTED

ROOT, CUTOFF = "s3://bucket/db/t", 1_000
SPELLINGS = Spellings((("s3", "s3a", "s3n"),), ())
PARTS = st.sampled_from(["data", "_p=1", "_q=1", ".x", "a b", "a%20b", "region=eu", "metadata"])
FILES = st.builds(
    lambda parts, name: "/".join([*parts, name]),
    st.lists(PARTS, max_size=3),
    st.sampled_from([f"{letter}.parquet" for letter in "abcdefgh"] + ["_h.avro", "snap-1.avro"]),
)
LISTINGS = st.dictionaries(FILES, st.integers(0, 2_000), max_size=12)
PREFIXES = st.sampled_from(["s3://bucket", "s3a://bucket", "s3n://bucket", "s3://other", "hdfs://bucket", ""])
SLASHES = st.sampled_from(["/", "//"])
REFERENCES = st.lists(st.tuples(PREFIXES, SLASHES, FILES), max_size=12)
METADATA = TableMetadataV2(
    location=ROOT,
    last_column_id=1,
    schemas=[{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "p", "type": "int", "required": False}]}],
    partition_specs=[
        {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "transform": "identity", "name": "_p"}]}
    ],
)


def key(path: str) -> str:
    return re.sub("/+", "/", unquote(path))


def is_hidden(below: str) -> bool:
    return any(part[0] in "_." and not part.startswith("_p=") for part in below.split("/"))


@given(LISTINGS, REFERENCES)
def test_what_is_left_over_is_what_a_simple_model_says(
    listing: dict[str, int], references: list[tuple[str, str, str]]
) -> None:
    locations = [f"{prefix}/db{slash}t/{below}" for prefix, slash, below in references]
    listed = ListedFiles(METADATA, SPELLINGS, CUTOFF)
    files = [f"{ROOT}/{below}" for below in listing]
    listed.add(pa.table([files, [1] * len(files), list(listing.values())], schema=LISTED), ROOT)
    search = OrphanSearch(listed.candidates(), SPELLINGS, Counter())
    for start in range(0, len(locations), 5):
        search.take_out(pa.chunked_array([locations[start : start + 5]], TEXT))

    same = {key(f"/db/t/{below}") for prefix, _, below in references if re.fullmatch("(s3.?://bucket)?", prefix)}
    other = {key(f"/db/t/{below}") for prefix, _, below in references} - same
    names = {below.rpartition("/")[2] for _, _, below in references}
    old = {below for below, modified in listing.items() if 0 < modified < CUTOFF and not is_hidden(below)}
    left = {below for below in old if key(f"/db/t/{below}") not in same}
    odd = {below for below in left if key(f"/db/t/{below}") in other}
    assert paths(search.mismatched()) == odd
    assert paths(search.files) == left
    search.keep_mismatched()
    search.keep_aliases()
    assert paths(search.files) == {below for below in left - odd if below.rpartition("/")[2] not in names}


def paths(files: pa.Table) -> set[str]:
    return {path.removeprefix(f"{ROOT}/") for path in files["path"].to_pylist()}


ROOTS = st.lists(
    st.builds(lambda scheme, parts: f"{scheme}://b/{'/'.join(parts)}", st.sampled_from(["s3", "s3a"]),
              st.lists(st.sampled_from(["a", "ab", "b", "a-"]), min_size=1, max_size=3)),
    min_size=1, max_size=2, unique=True,
)  # fmt: skip


@given(st.lists(ROOTS, max_size=5))
def test_shared_locations_are_all_pairs_that_nest(several: list[list[str]]) -> None:
    tables = [
        TableLocations(TableRef("lab", ("db",), str(number)), "", tuple(roots)) for number, roots in enumerate(several)
    ]

    def nest(one: str, other: str) -> bool:
        first, second = (f"{root.replace('s3a:', 's3:')}/" for root in (one, other))
        return first.startswith(second) or second.startswith(first)

    expected = {
        frozenset((one, other))
        for one, mine in enumerate(several)
        for other, theirs in enumerate(several[:one])
        if any(nest(first, second) for first in mine for second in theirs)
    }
    found = {frozenset((int(one.table.name), int(one.other.name))) for one in shared_locations(tables)}
    assert found == expected
