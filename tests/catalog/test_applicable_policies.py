"""The policies of a table, read from the policy API of Apache Polaris: paging, names, refusals and time limits."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.polaris import (
    TOKEN,
    FixedAnswer,
    PolarisServer,
    StoredPolicy,
    error_answer,
    stored,
)
from tidyberg.catalog.applicable_policies import applicable_policies
from tidyberg.catalog.open import catalog_from
from tidyberg.errors import (
    AccessDenied,
    CatalogUnreachable,
    ConfigurationError,
    TidybergError,
    UnknownTable,
    Unsupported,
)
from tidyberg.model.catalog_policies import ApplicablePolicy
from tidyberg.model.table import TableRef
from tidyberg.redact import seal
from tidyberg.testing import Warehouse

REF = TableRef("prod", ("sales", "eu"), "orders")
EXPIRY, COMPACTION = "system.snapshot-expiry", "system.data-compaction"


@pytest.fixture
def polaris() -> Iterator[PolarisServer]:
    with PolarisServer() as server:
        yield server


def read(server: PolarisServer, ref: TableRef = REF, timeout_seconds: float = 20.0) -> tuple[ApplicablePolicy, ...]:
    catalog = catalog_from("prod", seal(server.properties), 20.0)
    try:
        return applicable_policies(catalog, ref, timeout_seconds)
    finally:
        catalog.close()


def test_a_policy_closer_to_the_table_replaces_those_of_its_type_above(polaris: PolarisServer) -> None:
    polaris.store.attach((), stored(EXPIRY, "weak", enable=True), stored(COMPACTION, "all", enable=True))
    polaris.store.attach(("sales",), stored(EXPIRY, "middle", enable=True))
    polaris.store.attach(("sales", "eu", "orders"), StoredPolicy(EXPIRY, "strong", '{"enable": false}', ("a", "b"), 7))
    compaction, expiry = read(polaris)
    assert (compaction.name, compaction.inherited, compaction.namespace) == ("all", True, ("rules",))
    assert expiry == ApplicablePolicy(EXPIRY, "strong", ("a", "b"), 7, False, '{"enable": false}')
    assert compaction.origin == "catalog policy rules.all version 0, inherited"
    assert expiry.origin == "catalog policy a.b.strong version 7"
    assert read(polaris, TableRef("prod", ("hr",), "orders"))[1].name == "weak"


def test_a_table_without_policies_has_none(polaris: PolarisServer) -> None:
    assert read(polaris) == ()


def test_every_page_is_read(polaris: PolarisServer) -> None:
    names = [f"p{number}" for number in range(7)]
    polaris.store.attach((*REF.namespace, REF.name), *(stored(f"custom.{name}", name) for name in names))
    polaris.page_size = 3
    assert [policy.name for policy in read(polaris)] == names
    assert [asked["pageToken"] for asked in polaris.asked] == ["", "3", "6"]


def test_a_list_without_an_end_is_refused(polaris: PolarisServer) -> None:
    polaris.never_ends = True
    with pytest.raises(Unsupported, match=r"does not end its list of the policies of sales\.eu\.orders"):
        read(polaris)
    assert len(polaris.asked) <= 2


NAMES = (("a.b", "c"), ("a b&c=d", "é/%1F"), ("plain",))


@pytest.mark.parametrize("namespace", NAMES)
def test_any_name_reaches_the_server_as_it_is(polaris: PolarisServer, namespace: tuple[str, ...]) -> None:
    polaris.store.attach((*namespace, "t.1 ?"), stored(EXPIRY, "mine", enable=True))
    (found,) = read(polaris, TableRef("prod", namespace, "t.1 ?"))
    assert (found.name, found.inherited) == ("mine", False)


def test_a_server_that_does_not_list_the_endpoint_has_no_policy_api() -> None:
    with PolarisServer(has_policy_api=False) as server:
        with pytest.raises(Unsupported, match=r"Catalog 'prod' has no policy API\. Apache Polaris has one"):
            read(server)
        assert server.asked == []


def test_a_catalog_that_is_not_rest_has_no_policy_api(warehouse: Warehouse) -> None:
    with pytest.raises(Unsupported, match="has no policy API"):
        applicable_policies(warehouse.catalog, REF, 1.0)


REFUSALS: tuple[tuple[FixedAnswer, type[TidybergError], str], ...] = (
    (error_answer(404, "NoSuchTableException"), UnknownTable, "There is no table sales.eu.orders"),
    (error_answer(404, "NoSuchNamespaceException"), UnknownTable, "There is no table sales.eu.orders"),
    (error_answer(404, "NotFoundException"), Unsupported, "has no policy API"),
    (FixedAnswer(404, b"<html>not here</html>"), Unsupported, "has no policy API"),
    (FixedAnswer(405, b""), Unsupported, "has no policy API"),
    (error_answer(501, "UnsupportedOperationException"), Unsupported, "has no policy API"),
    (error_answer(403, "ForbiddenException"), AccessDenied, "told by the server.*TABLE_READ_PROPERTIES"),
    (error_answer(401, "NotAuthorizedException"), AccessDenied, "refused access"),
    (error_answer(500, "RuntimeException"), CatalogUnreachable, "could not answer: told by the server"),
    (error_answer(400, "BadRequestException"), ConfigurationError, "refused to list the policies"),
)


@pytest.mark.parametrize(("answer", "kind", "words"), REFUSALS)
def test_a_refusal_says_what_to_do(
    polaris: PolarisServer, answer: FixedAnswer, kind: type[TidybergError], words: str
) -> None:
    polaris.answer_instead = answer
    with pytest.raises(kind, match=words):
        read(polaris)


def test_secrets_are_masked_in_what_a_server_says(polaris: PolarisServer) -> None:
    polaris.answer_instead = error_answer(403, "ForbiddenException", f"no rights for {TOKEN}")
    with pytest.raises(AccessDenied) as refused:
        read(polaris)
    assert TOKEN not in str(refused.value)


POLICY: dict[str, Any] = {"policy-type": EXPIRY, "name": "p", "namespace": ["n"], "version": 1, "inherited": False}
BAD_ANSWERS: tuple[bytes, ...] = (
    b"",
    b"not JSON",
    b"[]",
    b"{}",
    json.dumps({"applicable-policies": [{**POLICY, "version": "1"}]}).encode(),
    json.dumps({"applicable-policies": [{**POLICY, "inherited": "no"}]}).encode(),
    json.dumps({"applicable-policies": [{**POLICY, "namespace": "n"}]}).encode(),
    json.dumps({"applicable-policies": [{**POLICY, "content": {"enable": True}}]}).encode(),
    json.dumps({"applicable-policies": [], "next-page-token": 5}).encode(),
)


@pytest.mark.parametrize("body", BAD_ANSWERS)
def test_an_answer_of_another_shape_is_refused(polaris: PolarisServer, body: bytes) -> None:
    polaris.answer_instead = FixedAnswer(200, body)
    with pytest.raises(Unsupported, match="answered something else than policies"):
        read(polaris)


def test_a_server_that_does_not_answer_in_time_is_given_up(polaris: PolarisServer) -> None:
    polaris.answer_instead = FixedAnswer(200, b"{}", delay_seconds=3.0)
    began = time.monotonic()
    with pytest.raises(CatalogUnreachable):
        read(polaris, timeout_seconds=0.1)
    assert time.monotonic() - began < 3.0


def test_the_optional_fields_may_be_missing(polaris: PolarisServer) -> None:
    body = {"applicable-policies": [{**POLICY, "inheritable": True}], "next-page-token": None}
    polaris.answer_instead = FixedAnswer(200, json.dumps(body).encode())
    (found,) = read(polaris)
    assert found.content is None
