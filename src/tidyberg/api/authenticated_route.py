"""The route class of the API: it authenticates, limits and checks a request before the handler runs."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel

from tidyberg.api.context import Context
from tidyberg.api.json_body import JsonRequest, judge_text
from tidyberg.api.thread_pool import calling_tenant
from tidyberg.errors import NotAuthenticated
from tidyberg.model.principal import LOCAL, Principal


class AuthenticatedRoute(APIRoute):
    """A route that reads nothing of a request before it knows the caller."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = frozenset(_query_names(self.dependant))

        async def enter(request: Request) -> Response:
            context: Context = request.app.state.context
            request.state.keys_version = context.keys_version()
            request.state.principal = principal = await admit(request, context)
            calling_tenant.set(principal.tenant)
            judge_text(request.url.path)
            _refuse_unknown_parameters(request, known)
            if self.body_field is None:
                return await handle(request)
            checked = JsonRequest(request.scope, request.receive)
            await checked.read(context.server.max_request_size, context.server.request_timeout_seconds)
            return await handle(checked)

        return enter


async def admit(request: Request, context: Context) -> Principal:
    """Returns the caller and counts the request. Callers without a name are counted by address."""
    try:
        principal = await context.identify(request)
    except NotAuthenticated:
        context.rate_limiter.take(counted_as(request, LOCAL))  # limits guessing of credentials
        raise
    context.admission.learn_tenant(request.scope["headers"], principal.tenant)
    context.rate_limiter.take(counted_as(request, principal))
    return principal


def counted_as(request: Request, principal: Principal) -> str:
    if principal == LOCAL:
        return f"address:{request.client.host if request.client else ''}"
    return f"principal:{principal.tenant}:{principal.name}"


def _refuse_unknown_parameters(request: Request, known: frozenset[str]) -> None:
    problems = []
    for name, value in request.query_params.multi_items():
        judge_text(name)
        judge_text(value)
        if name not in known:
            problems.append({"type": "extra_forbidden", "loc": ("query", name), "msg": "unknown", "input": None})
    if problems:
        raise RequestValidationError(problems)


def _query_names(dependant: Dependant) -> Iterator[str]:
    for parameter in dependant.query_params:
        annotation = parameter.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from annotation.model_fields
        else:
            yield parameter.alias
    for below in dependant.dependencies:
        yield from _query_names(below)
