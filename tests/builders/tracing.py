"""A tracer that keeps its spans, and an OTLP collector that receives them over HTTP."""

import gzip
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tidyberg.telemetry.otel import OpenTelemetryTracer


class KeepingTracer(OpenTelemetryTracer):
    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        super().__init__(SimpleSpanProcessor(self._kept))

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._kept.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def tree(self) -> set[tuple[str, str | None]]:
        """Returns the name of each span with that of its parent."""
        names = {span.context.span_id: span.name for span in self.spans if span.context}
        return {
            (span.name, names.get(span.parent.span_id, "elsewhere") if span.parent else None) for span in self.spans
        }


@contextmanager
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """Yields the address of a collector and the list of what it has received."""
    received: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                received.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
