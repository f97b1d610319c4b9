"""The OpenTelemetry tracer. It is imported only if an exporter is configured, and changes no global state."""

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tidyberg._version import __version__
from tidyberg.redact import redact_text
from tidyberg.telemetry.context import current_fields
from tidyberg.telemetry.traces import Span, Tracer, Value

_PATH = "/v1/traces"
_W3C = TraceContextTextMapPropagator()


def exporting_tracer(endpoint: str | None, service_name: str, ratio: float) -> "OpenTelemetryTracer":
    """Returns a tracer that sends to a collector over HTTP. The default endpoint comes from the environment."""
    address = None if endpoint is None else endpoint.rstrip("/").removesuffix(_PATH) + _PATH
    return OpenTelemetryTracer(BatchSpanProcessor(OTLPSpanExporter(endpoint=address)), service_name, ratio)


class _Traced(Span):
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set(self, **attributes: Value) -> None:
        self._span.set_attributes(_safe(attributes))

    def rename(self, name: str) -> None:
        self._span.update_name(name)


class OpenTelemetryTracer(Tracer):
    def __init__(self, processor: SpanProcessor, service_name: str = "tidyberg", ratio: float = 1.0) -> None:
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(ratio)),
            resource=Resource.create({"service.name": service_name, "service.version": __version__}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("tidyberg", __version__)

    @contextmanager
    def span(self, name: str, **attributes: Value) -> Iterator[Span]:
        with self._started(name, trace.SpanKind.INTERNAL, attributes) as span:
            yield span

    @contextmanager
    def serving(self, name: str, traceparent: str | None, **attributes: Value) -> Iterator[Span]:
        with self.continued(traceparent), self._started(name, trace.SpanKind.SERVER, attributes) as span:
            yield span

    @contextmanager
    def continued(self, traceparent: str | None) -> Iterator[None]:
        # An empty context, so that a span of this thread does not become the parent.
        carrier = {} if traceparent is None else {"traceparent": traceparent}
        token = contexts.attach(_W3C.extract(carrier, contexts.Context()))
        try:
            yield
        finally:
            contexts.detach(token)

    def add(self, name: str, start_ns: int, end_ns: int, **attributes: Value) -> None:
        span = self._tracer.start_span(name, start_time=start_ns, attributes=_safe({**current_fields(), **attributes}))
        span.end(end_ns)

    def traceparent(self) -> str | None:
        carrier: dict[str, str] = {}
        _W3C.inject(carrier)
        return carrier.get("traceparent")

    def close(self) -> None:
        self._provider.shutdown()

    @contextmanager
    def _started(self, name: str, kind: trace.SpanKind, attributes: Mapping[str, Value]) -> Iterator[Span]:
        safe_attributes = _safe({**current_fields(), **attributes})
        # OpenTelemetry would record the error text with secrets, so errors are recorded here [I12].
        with self._tracer.start_as_current_span(
            name, kind=kind, attributes=safe_attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield _Traced(span)
            except BaseException as error:
                _record(span, error)
                raise


def _record(span: trace.Span, error: BaseException) -> None:
    message = redact_text(str(error))
    span.set_status(trace.StatusCode.ERROR, message)
    span.add_event(
        "exception",
        {
            "exception.type": type(error).__qualname__,
            "exception.message": message,
            "exception.stacktrace": redact_text("".join(traceback.format_exception(error))),
        },
    )


def _safe(attributes: Mapping[str, Value]) -> dict[str, Value]:
    return {name: redact_text(value) if isinstance(value, str) else value for name, value in attributes.items()}
