"""Credentials that live for a time are renewed for tasks that start later."""

import pickle

from tidyberg.execute.tasks.renewal import RenewedAccess
from tidyberg.storage.access import StorageAccess


class Catalog:
    """Vends credentials that live for a minute."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.vended = 0
        self.is_down = False

    def vend(self) -> dict[str, str]:
        if self.is_down:
            raise ConnectionError("down")
        self.vended += 1
        return {"s3.session-token": f"token-{self.vended}", "s3.session-token-expires-at-ms": str(self.now + 60_000)}

    def access(self) -> RenewedAccess:
        return RenewedAccess(self.vend(), self.vend, lambda: self.now)


def test_credentials_are_renewed_after_half_of_their_lifetime() -> None:
    catalog = Catalog()
    access = catalog.access()
    catalog.now += 29_999
    assert access.reveal()["s3.session-token"] == "token-1"
    catalog.now += 1
    assert access.reveal()["s3.session-token"] == "token-2"
    catalog.now += 29_999
    assert access.reveal()["s3.session-token"] == "token-2"


def test_credentials_are_valid_when_they_are_sent_to_a_worker() -> None:
    catalog = Catalog()
    access = catalog.access()
    catalog.now += 40_000
    travelled = pickle.loads(pickle.dumps(access))
    assert type(travelled) is StorageAccess
    assert travelled.reveal()["s3.session-token"] == "token-2"
    assert "token" not in repr(access) + str(access)


def test_a_catalog_that_does_not_answer_is_asked_again_later() -> None:
    catalog = Catalog()
    access = catalog.access()
    catalog.now += 40_000
    catalog.is_down = True
    assert access.reveal()["s3.session-token"] == "token-1"
    catalog.is_down = False
    assert access.reveal()["s3.session-token"] == "token-2"


def test_credentials_that_do_not_expire_are_not_renewed() -> None:
    access = RenewedAccess({"s3.access-key-id": "a"}, dict, lambda: 10**15)
    assert access.reveal() == {"s3.access-key-id": "a"}
