"""Local metadata files are opened without Arrow, and read as with it."""

from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from tidyberg.errors import AccessDenied, DamagedFile
from tidyberg.storage.table_files import fetch, read_bytes


@pytest.mark.parametrize("name", ["m.avro", "a b.avro", "a+b=ü.avro", "a%20b.avro", "a;b.avro"])
@pytest.mark.parametrize("scheme", ["file://", ""])
def test_a_local_file_is_read_under_the_name_that_pyiceberg_wrote(tmp_path: Path, name: str, scheme: str) -> None:
    io, location = PyArrowFileIO(), f"{scheme}{tmp_path}/{name}"
    with io.new_output(location).create() as stream:
        stream.write(b"content")
    assert fetch(io, location) == b"content"


def test_missing_paths_and_directories_are_reported(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match=r"none.avro does not exist"):
        read_bytes(PyArrowFileIO(), f"file://{tmp_path}/none.avro")
    tmp_path.joinpath("secret.avro").touch(mode=0)
    if not _may_read_all(tmp_path / "secret.avro"):
        with pytest.raises(AccessDenied, match=r"secret.avro"):
            read_bytes(PyArrowFileIO(), f"file://{tmp_path}/secret.avro")


def test_a_custom_file_io_also_reads_local_files(tmp_path: Path) -> None:
    class Refusing(PyArrowFileIO):
        def new_input(self, location: str) -> PyArrowFile:
            raise PermissionError(location)

    tmp_path.joinpath("m.avro").touch()
    with pytest.raises(AccessDenied):
        read_bytes(Refusing(), f"file://{tmp_path}/m.avro")


def _may_read_all(path: Path) -> bool:
    try:
        path.read_bytes()
    except PermissionError:
        return False
    return True
