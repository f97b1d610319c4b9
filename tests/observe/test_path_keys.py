"""Locations of files: which may be the same file, and which certainly lie in a table's directories."""

import pyarrow as pa
import pytest

from tidyberg.observe.locations import inside
from tidyberg.observe.path_keys import TEXT, path_keys
from tidyberg.observe.reachable import FILES, FileKind, count_files, unique_files


def keys(*paths: str) -> list[str]:
    found: list[str] = path_keys(pa.chunked_array([list(paths)], TEXT)).to_pylist()
    return found


@pytest.mark.parametrize(
    "spellings",
    [
        ("s3://b/t/data/x", "s3a://b/t/data/x", "s3n://b/t//data/x", "S3://b/t/data/x", "s3://b/t/./data/x"),
        ("file:///t/data/x", "file:/t/data/x", "/t/data/x", "file://localhost/t/data/x", "/t/y/../data/x"),
        ("hdfs://nn:8020/t/x", "hdfs://nn/t/x", "hdfs:///t/x"),
        ("/t/day=1%2F2/x", "/t/day=1/2/x"),
        ("abfss://c@a.dfs.core.windows.net/t/x", "wasbs://c@a.blob.core.windows.net/t/x"),
    ],
)
def test_spellings_of_one_file_have_one_key(spellings: tuple[str, ...]) -> None:
    assert len(set(keys(*spellings))) == 1


def test_files_in_one_place_have_different_keys() -> None:
    assert len(set(keys("s3://b/t/x", "s3://b/t/X", "s3://b/t/x/y", "s3://b/t/xy", "s3://b/t2/x"))) == 5


def is_inside(path: str, *roots: str) -> bool:
    return bool(inside(pa.chunked_array([[path]], TEXT), roots)[0].as_py())


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("s3://b/t/data/x", "s3://b/t"),
        ("s3a://b/t/x", "s3n://b/t"),
        ("/t/x", "file:///t"),
        ("file:/t/x", "/t"),
        ("gcs://b/t/x", "gs://b/t"),
    ],
)
def test_a_file_below_a_directory_is_inside(path: str, root: str) -> None:
    assert is_inside(path, root)
    assert is_inside(path, "s3://elsewhere/t", root)


@pytest.mark.parametrize(
    "path",
    [
        "s3://b/t2/x",
        "s3://b2/t/x",
        "s3://b/t",
        "s3://b/t/../u/x",
        "s3://b/t/..",
        "s3://b/t//x",
        "/b/t/x",
        "s3://b/t/./x",
    ],
)
def test_other_files_and_unclear_ones_are_outside(path: str) -> None:
    assert not is_inside(path, "s3://b/t")


def test_each_path_counts_once_with_its_largest_size() -> None:
    """A Puffin file has an entry for each of its vectors."""
    kind = FileKind.POSITION_DELETES.value
    piece = pa.table([["a.puffin", "a.puffin", "b.puffin"], [kind] * 3, [5, 5, 7]], schema=FILES)
    counts = count_files(unique_files([piece, piece]))
    assert (counts.position_delete_files, counts.files, counts.bytes) == (2, 2, 12)
