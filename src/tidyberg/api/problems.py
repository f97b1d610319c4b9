"""Turns every failure into `application/problem+json` (RFC 9457), without secrets."""

import logging
import traceback
import uuid
from collections.abc import Callable, Sequence
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidyberg.api.refusals import MethodNotAllowed, NoSuchRoute
from tidyberg.errors import BadInput, InternalError, NotAuthenticated, TidybergError
from tidyberg.redact import redact_text
from tidyberg.settings.problems import describe_problem

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 5
_MOST_CHARACTERS = 200  # of a name that an error repeats
_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")

_log = logging.getLogger(__name__)


class FieldProblem(BaseModel):
    """One invalid field of a request."""

    location: str = Field(description="Where the field is: body, query, path or header.", examples=["body"])
    field: str = Field(
        description="The name of the field; dots separate levels.", examples=["options.target_file_size"]
    )
    message: str = Field(description="What is wrong with the field.")


class ProblemDetails(BaseModel):
    """Why a request failed, as defined by RFC 9457."""

    model_config = ConfigDict(title="Problem")  # the name of the component in the OpenAPI document

    type: str = Field(description="Identifies the kind of problem.", examples=["urn:tidyberg:problem:unknown-table"])
    title: str = Field(description="A short summary of the kind of problem.", examples=["Unknown table"])
    status: int = Field(description="The HTTP status.", examples=[404])
    detail: str = Field(description="What happened.")
    code: str = Field(description="A stable code for programs.", examples=["unknown-table"])
    hint: str | None = Field(None, description="What to do next.")
    instance: str | None = Field(None, description="Identifies an internal error in the log of the service.")
    errors: list[FieldProblem] | None = Field(None, description="The invalid fields.")


def problem_of(
    error: TidybergError,
    errors: list[FieldProblem] | None = None,
    instance: str | None = None,
    scrub: Callable[[str], str] = redact_text,
) -> ProblemDetails:
    return ProblemDetails(
        type=f"urn:tidyberg:problem:{error.code}",
        title=error.code.replace("-", " ").capitalize(),
        status=error.http_status,
        detail=scrub(error.message),  # I12
        code=error.code,
        hint=scrub(error.hint) if error.hint else None,
        instance=instance,
        errors=errors,
    )


def respond(
    error: TidybergError,
    errors: list[FieldProblem] | None = None,
    instance: str | None = None,
    scrub: Callable[[str], str] = redact_text,
) -> Response:
    problem = problem_of(error, errors, instance, scrub)
    headers = {}
    if problem.status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        headers["Retry-After"] = str(getattr(error, "retry_after_seconds", RETRY_SECONDS))
    if isinstance(error, NotAuthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    content = problem.model_dump_json(exclude_none=True)
    return Response(content, status_code=problem.status, media_type=MEDIA_TYPE, headers=headers)


class PreparedProblem:
    """An ASGI application with one prepared response, so that refusals stay cheap under overload."""

    def __init__(self, error: TidybergError, *, closes: bool = False) -> None:
        response = respond(error)
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        if closes:
            response.headers["Connection"] = "close"
        self._start = {"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers}
        self._body = {"type": "http.response.body", "body": response.body}

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send(self._start)
        await send(self._body)


def install(app: FastAPI) -> None:
    @app.exception_handler(TidybergError)
    async def on_error(request: Request, error: TidybergError) -> Response:
        return respond(error, scrub=request.app.state.context.service.control.scrub)

    @app.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, error: RequestValidationError) -> Response:
        return respond(*invalid_request(request, error))

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> Response:
        if error.status_code == HTTPStatus.NOT_FOUND:
            return respond(NoSuchRoute(f"There is no route {_path(request)}.", hint="GET /docs lists all routes."))
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            allowed = ", ".join(_allowed_methods(request))
            refused = MethodNotAllowed(
                f"{_path(request)} does not accept {request.method}.", hint=f"It accepts {allowed}."
            )
            response = respond(refused)
            response.headers["Allow"] = allowed
            return response
        return respond(BadInput(str(error.detail)))


def invalid_request(request: Request, error: RequestValidationError) -> tuple[BadInput, list[FieldProblem]]:
    """Returns the error for a request that does not match its model, and each wrong field."""
    fields = [_field_problem(request, problem) for problem in error.errors()]
    messages = " ".join(field.message for field in fields[:3])
    return BadInput(f"The request is not valid. {messages}", hint="`errors` names every field."), fields


class Defects:
    """Middleware for unexpected exceptions: it logs them without secrets and answers with a problem."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched_send)
        except Exception as error:  # noqa: BLE001 - nothing above could handle it
            instance = f"urn:uuid:{uuid.uuid4()}"
            # I12: a traceback may contain arguments
            _log.error("%s %s", instance, redact_text("".join(traceback.format_exception(error))))
            if scope["type"] == "http" and not started:
                defect = InternalError(
                    "The service failed unexpectedly.", hint=f"Its log has the details under {instance}."
                )
                await respond(defect, instance=instance)(scope, receive, send)


def _field_problem(request: Request, problem: ErrorDetails) -> FieldProblem:
    location, *parts = problem["loc"] or ("body",)
    if problem["type"] == "missing" and not parts:
        return FieldProblem(location=str(location), field="", message="The JSON body is missing.")
    body = getattr(request.scope.get("route"), "body_field", None)
    model = body.field_info.annotation if body is not None and location == "body" else None
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        model = FieldProblem  # no field names to suggest
    described: ErrorDetails = {**problem, "loc": tuple(parts)}
    message = describe_problem(model, described).replace("is not a setting", "is not known")
    return FieldProblem(location=str(location), field=_dotted(parts), message=message)


def _dotted(parts: Sequence[str | int]) -> str:
    return ".".join(str(part) for part in parts)[:_MOST_CHARACTERS]


def _path(request: Request) -> str:
    return redact_text(request.url.path[:_MOST_CHARACTERS])


def _allowed_methods(request: Request) -> list[str]:
    def is_taken(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] is Match.FULL for route in request.app.router.routes)

    return [method for method in _METHODS if is_taken(method)]
