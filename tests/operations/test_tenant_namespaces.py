"""Two tenants never share a namespace of the catalog, whatever their names are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidyberg.errors import AccessDenied, BadInput
from tidyberg.model.tenant_namespaces import tenant_namespace, tenant_of
from tidyberg.operations.operations import acting_tenant

TENANTS = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._@-]{0,12}\Z")
NAMESPACES = st.from_regex(r"\A[A-Za-z0-9_][A-Za-z0-9_-]{0,12}\Z")


@given(TENANTS, NAMESPACES, TENANTS, NAMESPACES)
def test_different_pairs_have_different_namespaces(tenant: str, namespace: str, other: str, others: str) -> None:
    encoded = tenant_namespace("tenant_", tenant, namespace)
    assert encoded == encoded.lower()
    assert tenant_of("tenant_", (encoded,)) == tenant
    if (tenant, namespace) != (other, others):
        assert encoded != tenant_namespace("tenant_", other, others)


@pytest.mark.parametrize("pair", [("a_", "b"), ("a", "_b"), ("a_5f", "b"), ("A", "b"), ("a", "B"), ("a-b", "c")])
def test_separators_and_capitals_are_escaped(pair: tuple[str, str]) -> None:
    assert tenant_namespace("", *pair).count("__") >= 1
    assert tenant_of("", (tenant_namespace("", *pair),)) == pair[0]


@pytest.mark.parametrize(
    "tenant",
    ["", "..", "../b", "a/b", "a b", "a\n", "а", "ａcme", "acmé", "a" * 65, ".a", "-a", "_a", "*", "a*",
     "a\u200b", "a%2e"],
)  # fmt: skip
def test_names_with_other_characters_are_no_tenants(tenant: str) -> None:
    with pytest.raises(BadInput, match="is not a tenant"):
        tenant_namespace("tenant_", tenant, "default")


@pytest.mark.parametrize("namespace", ["", "a.b", "..", "a/b", "a b", "ä", "a" * 65])
def test_names_with_other_characters_are_no_namespaces(namespace: str) -> None:
    with pytest.raises(BadInput, match="is not a namespace"):
        tenant_namespace("tenant_", "acme", namespace)


def test_names_that_are_too_long_together_are_refused() -> None:
    with pytest.raises(BadInput, match="too long"):
        tenant_namespace("tenant_", "A" * 64, "B" * 64)


@pytest.mark.parametrize(
    "name", ["analytics", "tenant_a", "tenant_a__b__c", "tenant_a__", "tenant_A__b", "tenant_a_zz__b"]
)
def test_other_namespaces_belong_to_no_tenant(name: str) -> None:
    assert tenant_of("tenant_", (name,)) is None


def test_the_tenant_of_the_caller_is_authoritative() -> None:
    assert acting_tenant(None, "acme") == "acme"
    assert acting_tenant("acme", "acme") == "acme"
    assert acting_tenant("other", None) == "other"
    for spoofed in ("other", "Acme", "acme ", "acme.", ""):
        with pytest.raises(AccessDenied):
            acting_tenant(spoofed, "acme")
    with pytest.raises(BadInput, match="tenant_id"):
        acting_tenant(None, None)
