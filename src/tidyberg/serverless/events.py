"""Reads events: HTTP requests through API Gateway or a direct invocation, scheduled events, and requests for jobs."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidyberg.errors import AccessDenied, BadInput, NotAuthenticated
from tidyberg.settings.job_options import check_kind
from tidyberg.settings.serverless import ServerlessSettings

LARGEST_BODY = 6 * 1024 * 1024  # of a request and of an answer, as Lambda has it
_SCHEDULED = frozenset(("aws.events", "aws.scheduler"))
_JOB_KEYS = ("kind", "catalog", "tables", "options")
_HINT = 'Send an HTTP event, a scheduled event, or a request such as {"tables": ["sales.orders"]}.'
_DEEPEST = 64


class EventTooLarge(BadInput):
    code = "body-too-large"
    http_status = 413


@dataclass(frozen=True)
class HttpCall:
    method: str
    path: str
    body: str | bytes | None
    is_gateway: bool  # API Gateway or a function URL sent it; otherwise IAM has checked who invokes the function
    has_identity: bool = False
    tenant: str | None = None

    @property
    def route(self) -> str:
        """The last part of the path. Stages and custom domains put names before it."""
        return self.path.rstrip("/").rpartition("/")[2]

    def require_identity(self, tenant_claim: str) -> None:
        """Refuse callers that no authorizer has checked, and tokens that do not say whose data they are for."""
        if not self.is_gateway:
            return
        if not self.has_identity:
            raise NotAuthenticated(
                "The API Gateway has no authorizer, so anyone could read and write every table.",
                hint="Add a JWT, Lambda or IAM authorizer to the route.",
            )
        if self.tenant == "":
            raise AccessDenied(
                f"The caller has no claim {tenant_claim!r}.",
                hint="Add the claim to its token, or set serverless.tenant_claim.",
            )

    def document(self) -> dict[str, Any]:
        """Return the body, which must be a JSON object."""
        if self.body is None or not self.body:
            raise BadInput("The request has no body.", hint='Send a JSON object such as {"operation": "QUERY", …}.')
        if len(self.body) > LARGEST_BODY:
            raise EventTooLarge(
                f"The body has {len(self.body):,} bytes; the limit is {LARGEST_BODY:,}.", hint="Send it in parts."
            )
        return parse_object(self.body, "The body")


@dataclass(frozen=True)
class JobCall:
    """A request for maintenance of some tables. No tables means those of the settings."""

    kind: str
    tables: tuple[str, ...]
    catalog: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    is_unattended: bool = False  # nobody reads the answer, so a failure must be an error of the function


def is_http(event: Any) -> bool:
    """Returns True if the caller expects an HTTP answer, even if the event is malformed."""
    if not isinstance(event, Mapping):
        return False
    request = event.get("requestContext")
    return "httpMethod" in event or (isinstance(request, Mapping) and "http" in request)


def parse_event(event: Any, settings: ServerlessSettings) -> HttpCall | JobCall:
    if not isinstance(event, Mapping):
        raise BadInput(f"The event is not a JSON object but {type(event).__name__}.", hint=_HINT)
    if "httpMethod" in event:
        return _http(event, event["httpMethod"], event.get("path"), settings)
    request = event.get("requestContext")
    if isinstance(request, Mapping) and isinstance(request.get("http"), Mapping):
        http = request["http"]
        return _http(event, http.get("method"), event.get("rawPath", http.get("path")), settings)
    if "detail-type" in event or ("source" in event and "detail" in event):
        return _scheduled(event, settings)
    if event and not set(event) - set(_JOB_KEYS):
        return _job(event, settings, is_unattended=False)
    shown = ", ".join(sorted(map(str, event))[:5]) or "none"
    raise BadInput(f"The event is of no known kind. Its keys: {shown}.", hint=_HINT)


def parse_object(text: str | bytes, what: str) -> dict[str, Any]:
    """Parse a JSON object. Refuses NaN, repeated keys and deep nesting, which readers understand differently."""
    try:
        found = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_repeats)
    except RecursionError:
        raise BadInput(f"{what} is nested too deeply.") from None
    except ValueError as error:  # also UnicodeDecodeError
        raise BadInput(f"{what} is not valid JSON: {error}.") from None
    if not isinstance(found, dict):
        raise BadInput(f"{what} is not a JSON object but {type(found).__name__}.")
    if _depth(found) > _DEEPEST:
        raise BadInput(f"{what} is nested more than {_DEEPEST} levels deep.")
    return found


def _http(event: Mapping[str, Any], method: Any, path: Any, settings: ServerlessSettings) -> HttpCall:
    if not isinstance(method, str) or not isinstance(path, str):
        raise BadInput("The HTTP event needs a method and a path, both as text.", hint=_HINT)
    request = event.get("requestContext")
    identity, tenant = _identity(request, settings.tenant_claim) if isinstance(request, Mapping) else (False, None)
    return HttpCall(method.upper(), path, _body(event), bool(request), identity, tenant)


def _body(event: Mapping[str, Any]) -> str | bytes | None:
    body, encoded = event.get("body"), event.get("isBase64Encoded", False)
    if body is None:
        return None
    if not isinstance(body, str):
        raise BadInput(
            f"The body of an HTTP event is text, not {type(body).__name__}.", hint="Send the JSON as a string."
        )
    if not isinstance(encoded, bool):
        raise BadInput(f"isBase64Encoded must be true or false, not {encoded!r}.")
    if not encoded:
        return body
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise BadInput("The body is not valid base64, although isBase64Encoded is true.") from None


def _identity(request: Mapping[str, Any], claim: str) -> tuple[bool, str | None]:
    """Return whether an authorizer has checked the caller, and the caller's tenant.

    The tenant is "" if the claims do not name one. A caller that IAM has checked has no claims and may name any tenant.
    """
    authorizer = request.get("authorizer")
    if isinstance(authorizer, Mapping) and authorizer:
        jwt = authorizer.get("jwt")
        claims = jwt.get("claims") if isinstance(jwt, Mapping) else authorizer.get("claims", authorizer.get("lambda"))
        if claims is None and isinstance(authorizer.get("iam"), Mapping):
            return True, None
        tenant = (claims if isinstance(claims, Mapping) else authorizer).get(claim)
        return True, tenant if isinstance(tenant, str) else ""
    identity = request.get("identity")
    return isinstance(identity, Mapping) and bool(identity.get("userArn")), None


def _scheduled(event: Mapping[str, Any], settings: ServerlessSettings) -> JobCall:
    detail = event.get("detail") or {}
    if not isinstance(detail, Mapping):
        raise BadInput(f"The detail of the event is not a JSON object but {type(detail).__name__}.", hint=_HINT)
    if not detail and event.get("source") not in _SCHEDULED:
        raise BadInput(f"The event of {event.get('source')!r} says nothing about tables.", hint=_HINT)
    return _job(detail, settings, is_unattended=True)


def _job(given: Mapping[str, Any], settings: ServerlessSettings, *, is_unattended: bool) -> JobCall:
    if unknown := sorted(str(key) for key in given if key not in _JOB_KEYS):
        raise BadInput(f"{unknown[0]!r} is not a key of a request.", hint=f"The keys are {', '.join(_JOB_KEYS)}.")
    kind, catalog = given.get("kind", settings.kind), given.get("catalog")
    tables, options = given.get("tables", list(settings.tables)), given.get("options", {})
    if not isinstance(kind, str):
        raise BadInput(f"kind must be text, not {kind!r}.")
    if catalog is not None and not isinstance(catalog, str):
        raise BadInput(f"catalog must be text, not {catalog!r}.")
    if not isinstance(tables, list) or not all(isinstance(name, str) and name.strip() for name in tables):
        raise BadInput("tables must be a list of names.", hint='Write ["sales.orders", "logs.*"].')
    if not isinstance(options, Mapping):
        raise BadInput("options must be a JSON object.")
    return JobCall(check_kind(kind), tuple(dict.fromkeys(tables)), catalog, dict(options), is_unattended)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level and depth <= _DEEPEST:
        depth += 1
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return depth
