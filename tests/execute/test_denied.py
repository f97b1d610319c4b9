"""Messages that say "access denied", as the sources word them, are recognized wherever they arrive."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from tidyberg.catalog.errors import translate
from tidyberg.errors import AccessDenied, StorageError, TidybergError
from tidyberg.failures import FailureKind
from tidyberg.storage import denied
from tidyberg.storage.access import StorageAccess
from tidyberg.storage.denied import DENIED_WORDS, EXPIRED_WORDS
from tidyberg.storage.file_io import Storage
from tidyberg.storage.table_files import read_bytes

MESSAGES = {
    "S3": "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
    "Arrow": "When reading 'a' in bucket 'b': AWS Error ACCESS_DENIED during HeadObject operation: No response body.",
    "AWS clients": "An error occurred (UnrecognizedClientException) when calling the GetTable operation",
    "HTTP": "401 Client Error: Unauthorized for url: http://catalog/v1/config",
    "databases": 'connection failed: FATAL:  password authentication failed for user "iceberg"',
}


class Failing(PyArrowFileIO):
    def __init__(self, error: OSError) -> None:
        super().__init__()
        self._error = error

    def new_input(self, location: str) -> PyArrowFile:
        raise self._error


def of_storage(error: OSError) -> bool:
    failure = Storage(StorageAccess({}))._failure(error, "s3://b/a", writing=False)
    return failure.kind is FailureKind.DENIED


def of_metadata_files(error: OSError) -> bool:
    try:
        read_bytes(Failing(error), "gs://b/a")
    except TidybergError as raised:
        return isinstance(raised, AccessDenied)
    raise AssertionError("the fetch fails")


def of_catalogs(error: OSError) -> bool:
    return isinstance(translate(error, "prod", "db.events", ()), AccessDenied)


PLACES = [of_storage, of_metadata_files, of_catalogs]


@pytest.mark.parametrize("is_denied", PLACES)
@pytest.mark.parametrize("source", DENIED_WORDS)
def test_the_message_of_each_source_is_recognized(source: str, is_denied: Callable[[OSError], bool]) -> None:
    assert is_denied(OSError(MESSAGES[source]))


@pytest.mark.parametrize("is_denied", PLACES)
@pytest.mark.parametrize("word", [word for words in DENIED_WORDS.values() for word in words])
def test_each_word_is_recognized_in_any_case(word: str, is_denied: Callable[[OSError], bool]) -> None:
    assert is_denied(OSError(f"the store said: {word}"))
    assert is_denied(OSError(f"the store said: {word.lower()}"))


@pytest.mark.parametrize("is_denied", PLACES)
def test_a_word_within_a_path_is_no_denial(is_denied: Callable[[OSError], bool]) -> None:
    assert not is_denied(OSError("timeout while reading s3://b/db/unauthorized_logins/data/forbidden-1.parquet"))


@pytest.mark.parametrize("word", EXPIRED_WORDS)
def test_expired_credentials_are_denied_by_a_catalog_but_transient_in_storage(word: str) -> None:
    error = OSError(f"AWS Error {word} during GetObject operation")
    assert of_catalogs(error)
    assert Storage(StorageAccess({}))._failure(error, "s3://b/a", writing=False).kind is FailureKind.EXPIRED
    with pytest.raises(StorageError):
        read_bytes(Failing(error), "gs://b/a")


def test_the_list_imports_nothing_of_tidyberg() -> None:
    tree = ast.parse(Path(denied.__file__).read_text(encoding="utf-8"))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in imported] == ["import re"]
