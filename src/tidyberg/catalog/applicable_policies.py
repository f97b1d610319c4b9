"""Reads the policies that apply to a table from the policy API of Apache Polaris.

The API is an extension of the Iceberg REST API, on the same server and with the same credentials:
spec/polaris-catalog-apis/policy-apis.yaml of Polaris, operation getApplicablePolicies.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field, StrictBool, StrictInt, StrictStr, ValidationError
from pyiceberg.catalog import Catalog

from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.open import catalog_secrets
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
from tidyberg.redact import redact_text

if TYPE_CHECKING:  # other catalogs do not need HTTP
    from pyiceberg.catalog.rest import RestCatalog
    from requests import Response

ENDPOINT = "GET /polaris/v1/{prefix}/applicable-policies"
_SEPARATOR = "\x1f"  # between the levels of a namespace, as the specification says
_PAGE_SIZE = 100
_MOST_PAGES = 1_000
_UNKNOWN_TABLE = ("NoSuchTableException", "NoSuchNamespaceException")  # other errors 404 mean an unknown path
_NO_API_HINT = "Apache Polaris has one, unless its feature ENABLE_POLICY_STORE is off."


class _Policy(BaseModel):
    policy_type: Annotated[StrictStr, Field(alias="policy-type")]
    name: StrictStr
    namespace: list[StrictStr]
    version: StrictInt
    inherited: StrictBool = False
    content: StrictStr | None = None


class _Page(BaseModel):
    policies: Annotated[list[_Policy], Field(alias="applicable-policies")]
    next_page_token: Annotated[StrictStr | None, Field(alias="next-page-token")] = None


class _RefusalDetail(BaseModel):
    """An error in the shape of Iceberg's REST specification."""

    type: str = ""
    message: str = ""


class _Refusal(BaseModel):
    error: _RefusalDetail


def applicable_policies(catalog: Catalog, ref: TableRef, timeout_seconds: float) -> tuple[ApplicablePolicy, ...]:
    """Returns the policies of the table, in the order of their types. Each request has a time limit.

    Raises Unsupported if the catalog has no policy API.
    """
    rest = _with_policy_api(catalog, ref.catalog)
    found: list[_Policy] = []
    token, seen = "", set[str]()
    while token not in seen and len(seen) < _MOST_PAGES:
        seen.add(token)
        page = _page(rest, ref, token, timeout_seconds)
        found += page.policies
        if not page.next_page_token:
            policies = (_policy(each) for each in found)
            return tuple(sorted(policies, key=lambda each: (each.policy_type, each.full_name)))
        token = page.next_page_token
    raise Unsupported(
        f"Catalog {ref.catalog!r} does not end its list of the policies of {ref}.", hint="This is a bug of its server."
    )


def _with_policy_api(catalog: Catalog, name: str) -> "RestCatalog":
    from pyiceberg.catalog.rest import Endpoint, RestCatalog

    # A server lists the endpoints that it has. One that lists none has only those of Iceberg.
    if isinstance(catalog, RestCatalog) and Endpoint.from_string(ENDPOINT) in catalog._supported_endpoints:
        return catalog
    raise _no_policy_api(name)


def _no_policy_api(name: str) -> Unsupported:
    return Unsupported(f"Catalog {name!r} has no policy API.", hint=_NO_API_HINT)


def _page(rest: "RestCatalog", ref: TableRef, token: str, timeout_seconds: float) -> _Page:
    from tidyberg.catalog.rest import CONNECT_TIMEOUT_SECONDS

    with catalog_errors(ref.catalog, what=str(ref), secrets=catalog_secrets(rest)):
        answer = rest._session.get(
            _url(rest),
            params={
                "namespace": _SEPARATOR.join(ref.namespace),
                "target-name": ref.name,
                "pageToken": token,
                "pageSize": str(_PAGE_SIZE),
            },
            timeout=(min(CONNECT_TIMEOUT_SECONDS, timeout_seconds), timeout_seconds),
        )
    if not answer.ok:
        raise _refusal(answer, ref, catalog_secrets(rest))
    try:
        return _Page.model_validate_json(answer.content)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"])) or "the answer"
        raise Unsupported(
            f"Catalog {ref.catalog!r} answered something else than policies: {where}: {problem['msg']}.",
            hint="Its policy API must be that of Apache Polaris.",
        ) from None


def _url(rest: "RestCatalog") -> str:
    prefix = str(rest.properties.get("prefix", ""))
    return f"{rest.uri.rstrip('/')}/polaris/v1/{prefix}/applicable-policies"


def _refusal(answer: "Response", ref: TableRef, secrets: Sequence[str]) -> TidybergError:
    """Returns the error for an answer that is not 2xx."""
    try:
        told = _Refusal.model_validate_json(answer.content).error
    except ValidationError:
        told = _RefusalDetail()  # a server or a proxy that does not know the path need not answer in JSON
    said = redact_text(told.message.strip() or f"HTTP status {answer.status_code}", secrets)
    match answer.status_code:
        case 404 if told.type in _UNKNOWN_TABLE:
            return UnknownTable(f"There is no table {ref} in catalog {ref.catalog!r}.")
        case 404 | 405 | 501:
            return _no_policy_api(ref.catalog)
        case 403:
            return AccessDenied(
                f"Catalog {ref.catalog!r} does not show the policies of {ref}: {said}",
                hint="Polaris asks for the privilege TABLE_READ_PROPERTIES on the table.",
            )
        case 401 | 419:
            return AccessDenied(
                f"Catalog {ref.catalog!r} refused access: {said}", hint="Check its credential, token or access keys."
            )
        case status if status == 429 or status >= 500:
            return CatalogUnreachable(f"Catalog {ref.catalog!r} could not answer: {said}", hint="Try again later.")
    return ConfigurationError(
        f"Catalog {ref.catalog!r} refused to list the policies of {ref}: {said}", hint="Check its properties."
    )


def _policy(read: _Policy) -> ApplicablePolicy:
    return ApplicablePolicy(
        policy_type=read.policy_type,
        name=read.name,
        namespace=tuple(read.namespace),
        version=read.version,
        inherited=read.inherited,
        content=read.content,
    )
