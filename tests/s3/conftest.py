"""Fixtures of the tests on a real S3 server."""

import pytest

from tests.servers.s3 import S3Server
from tidyberg.storage.access import StorageAccess
from tidyberg.storage.file_io import Storage
from tidyberg.storage.s3.settings import S3Settings
from tidyberg.storage.s3.store import S3Store


@pytest.fixture
def store(s3_server: S3Server) -> S3Store:
    settings = S3Settings.of(s3_server.properties)
    assert settings is not None
    return S3Store(settings)


@pytest.fixture
def storage(s3_server: S3Server) -> Storage:
    return Storage(StorageAccess(s3_server.properties))
