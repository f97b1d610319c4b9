"""The function: it owns what lives as long as its sandbox, and sends each event to what handles it."""

import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidyberg import app
from tidyberg.control.control import Control
from tidyberg.errors import BadInput, InternalError, TidybergError, Transient
from tidyberg.execute.time_budget import TimeBudget, within
from tidyberg.model.options import Calibration
from tidyberg.model.words import plural
from tidyberg.operations.answers import error_answer
from tidyberg.serverless.events import LARGEST_BODY, EventTooLarge, HttpCall, JobCall, is_http, parse_event
from tidyberg.serverless.jobs import TableJobs
from tidyberg.serverless.limits import Deadline, FunctionSize
from tidyberg.settings.load import load_settings
from tidyberg.settings.settings import Settings
from tidyberg.telemetry.logs import set_up_logs

log = logging.getLogger(__name__)

_HOME = "/tmp/tidyberg"  # noqa: S108 - nothing else is writable in a sandbox, and nobody else uses it
_LEASE_MS = 20_000  # the next invocation need not wait longer for the table of a killed one
_TOO_LARGE = EventTooLarge(f"The answer is larger than {LARGEST_BODY:,} bytes.", hint="Ask for fewer rows.")
_DATABASE, _HEALTH = "database", "health"


class JobsFailed(Transient):
    """Some tables of a scheduled event failed. Lambda counts it as an error, which alarms and retries build on."""

    code = "jobs-failed"


class Answer(Protocol):
    """What a table operation answers."""

    @property
    def status(self) -> int: ...

    @property
    def body(self) -> dict[str, Any]: ...


class Operations(Protocol):
    """The table operations, as `tidyberg.app.table_operations` makes them."""

    def handle(self, body: Mapping[str, Any], tenant: str | None) -> Answer: ...

    def health(self) -> Answer: ...


@dataclass
class Function:
    """One function. Threads may share it, as the local endpoint does."""

    settings: Settings
    control: Control
    _operations: Operations | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of_environment(cls, environ: Mapping[str, str]) -> "Function":
        settings = function_settings(environ)
        if "AWS_LAMBDA_FUNCTION_NAME" in environ:
            set_up_logs(settings, log_format="json")
        control = app.build_control(settings)
        control.lease_ms = _LEASE_MS
        return cls(settings, control)

    def __call__(self, event: Any, context: Any) -> dict[str, Any]:
        deadline = Deadline(context, self.settings.serverless.reserve_seconds)
        try:
            call = parse_event(event, self.settings.serverless)
        except BadInput as error:
            if is_http(event):
                return self._refused(error)
            raise
        return self._answer(call, deadline) if isinstance(call, HttpCall) else self._run_jobs(call, deadline)

    def _run_jobs(self, call: JobCall, deadline: Deadline) -> dict[str, Any]:
        report = TableJobs(self.settings, self.control).run(call, deadline)
        document = report.document()
        if call.is_unattended and report.failed:
            names = ", ".join(table.table for table in report.failed)
            raise JobsFailed(
                f"{plural(len(report.failed), 'table')} failed: {names}. {json.dumps(document)}",
                hint="The other tables are done. The next event tries again.",
            )
        return document

    def _answer(self, call: HttpCall, deadline: Deadline) -> dict[str, Any]:
        try:
            with within(TimeBudget(deadline.left, deadline.reserve_seconds, _usual_speed())):
                answer = self._operate(call)
            return http_answer(answer.status, answer.body)
        except TidybergError as error:
            return self._refused(error)
        except Exception as error:
            log.exception("%s %s failed", call.method, call.path)
            words = self.control.scrub(f"{type(error).__name__}: {error}")
            return self._refused(InternalError(f"Unexpected failure: {words}", hint="This is a bug in tidyberg."))

    def _refused(self, error: TidybergError) -> dict[str, Any]:
        answer = error_answer(error, self.control.scrub)
        return http_answer(answer.status, answer.body)

    def _operate(self, call: HttpCall) -> Answer:
        if call.route == _HEALTH:
            _check_method(call, "GET")
            return self._get_operations().health()
        if call.route == _DATABASE:
            _check_method(call, "POST")
            call.require_identity(self.settings.serverless.tenant_claim)
            return self._get_operations().handle(call.document(), call.tenant)
        raise NotFound(f"There is nothing at {call.path}.", hint="POST /database and GET /health are known.")

    def _get_operations(self) -> Operations:
        with self._lock:
            if self._operations is None:
                self._operations = app.table_operations(self.settings, self.control)
            return self._operations


class NotFound(BadInput):
    code = "not-found"
    http_status = 404


class EventMethodNotAllowed(BadInput):
    code = "method-not-allowed"
    http_status = 405


def function_settings(environ: Mapping[str, str]) -> Settings:
    """Load the settings, and bound them by the function: the inline engine, its memory, and a place for the store."""
    home = {"TIDYBERG_HOME": _HOME} if "AWS_LAMBDA_FUNCTION_NAME" in environ else {}
    settings = load_settings(environ={**home, **environ})
    if settings.engine == "spark" and "engine" in settings.model_fields_set:
        log.warning("a function runs the inline engine: Spark is for tables that do not fit into it")
    size = FunctionSize.of_environment(environ)
    update: dict[str, Any] = {"engine": "inline"}
    if size is not None:
        given = settings.resources
        own = {"cores": given.cores or size.tasks_at_once, "memory_gb": given.memory_gb or size.memory_gb}
        update["resources"] = given.model_copy(update=own)
    longest = round(settings.serverless.reserve_seconds * 1000)
    if settings.commit.total_timeout_ms > longest:  # a commit that waits longer would be killed
        update["commit"] = settings.commit.model_copy(update={"total_timeout_ms": longest})
    return settings.model_copy(update=update)


def http_answer(status: int, body: Mapping[str, Any]) -> dict[str, Any]:
    text = json.dumps(body, default=str)
    if len(text.encode()) > LARGEST_BODY:
        return http_answer(413, error_answer(_TOO_LARGE).body)
    return {
        "statusCode": status,
        "headers": {"Content-Type": "application/json"},
        "isBase64Encoded": False,
        "body": text,
    }


def _check_method(call: HttpCall, method: str) -> None:
    if call.method != method:
        raise EventMethodNotAllowed(f"{call.path} does not take {call.method}.", hint=f"Send {method}.")


def _usual_speed() -> float:
    return Calibration().encode_bytes_per_core_second
