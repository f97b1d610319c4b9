"""A job is one trace from its request on, and OpenTelemetry is imported only if needed."""

import subprocess
import sys
from dataclasses import replace

import pytest
from opentelemetry.trace import StatusCode
from pyiceberg.table import Table

from tests.builders.control import make_control
from tests.builders.engines import Spoiling
from tests.builders.events_table import REF
from tests.builders.tracing import KeepingTracer, collector
from tidyberg.errors import ConfigurationError, VerificationFailed
from tidyberg.execute.engine import Engine
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.settings.telemetry import Telemetry
from tidyberg.telemetry.context import about
from tidyberg.telemetry.open_tracer import open_tracer
from tidyberg.telemetry.traces import Tracer
from tidyberg.testing import Warehouse

FULL = PlanOptions(strategy=Strategy.FULL, min_input_files=2)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return warehouse.append_files(warehouse.create_table(), 6, 50, files_per_commit=2)


def compact(warehouse: Warehouse, tracer: Tracer, engine: Engine | None = None, options: PlanOptions = FULL) -> None:
    with make_control(warehouse, engine, tracer=tracer) as control:
        control.compact(REF, options, job_id="run-2", submission_id="job-1")


def test_trace_of_a_job_is_a_tree_of_stages(warehouse: Warehouse, table: Table) -> None:
    tracer = KeepingTracer()
    sizes = [task.file.file_size_in_bytes for task in table.scan().plan_files()]
    compact(warehouse, tracer)
    assert tracer.tree() == {
        ("compact_table", None),
        ("observe", "compact_table"),
        ("planning", "compact_table"),
        ("execution", "compact_table"),
        ("task", "execution"),
        ("verify", "compact_table"),
        ("commit", "compact_table"),
    }
    [whole], [execution] = tracer.named("compact_table"), tracer.named("execution")
    assert whole.attributes is not None
    assert dict(whole.attributes) == {
        "table": "lab.db.events",
        "strategy": "full",
        "job_id": "job-1",
        "run_id": "run-2",
        "outcome": "committed",
        "files": 6,
        "bytes": sum(sizes),
    }
    assert execution.attributes is not None
    assert {name: execution.attributes[name] for name in ("partitions", "files", "job_id", "engine")} == {
        "partitions": 1,
        "files": 6,
        "job_id": "job-1",
        "engine": "inline",
    }
    order = [span.name for span in sorted(tracer.spans, key=lambda span: span.start_time or 0)]
    assert order == ["compact_table", "observe", "planning", "execution", "task", "verify", "commit"]


def test_task_span_lies_within_the_execution(warehouse: Warehouse, table: Table) -> None:
    tracer = KeepingTracer()
    compact(warehouse, tracer)
    [execution], [task] = tracer.named("execution"), tracer.named("task")
    assert (execution.start_time or 0) <= (task.start_time or 0) < (task.end_time or 0)
    assert (task.end_time or 0) <= (execution.end_time or 0) + 1_000_000  # two clocks
    assert task.attributes is not None
    assert (task.attributes["files"], task.attributes["rows"], task.attributes["attempt"]) == (6, 300, 0)


def test_failure_is_recorded_in_its_span(warehouse: Warehouse, table: Table) -> None:
    tracer = KeepingTracer()
    engine = Spoiling(lambda result: replace(result, rows_written=result.rows_written - 1))
    with pytest.raises(VerificationFailed):
        compact(warehouse, tracer, engine)
    failed = {span.name for span in tracer.spans if span.status.status_code is StatusCode.ERROR}
    assert failed == {"compact_table", "verify"}
    [event] = tracer.named("verify")[0].events
    assert event.attributes is not None
    assert event.attributes["exception.type"] == "VerificationFailed"
    assert not tracer.named("commit")


def test_error_is_recorded_without_secrets() -> None:
    tracer = KeepingTracer()
    with pytest.raises(ValueError, match="hunter22"), tracer.span("observe", uri="http://u:hunter22@catalog"):
        raise ValueError("cannot reach http://u:hunter22@catalog?token=abcdef")
    assert "hunter22" not in tracer.spans[0].to_json()
    assert "abcdef" not in tracer.spans[0].to_json()


def test_job_continues_the_trace_of_its_request(warehouse: Warehouse, table: Table) -> None:
    tracer = KeepingTracer()
    with tracer.serving("POST", PARENT), about(request_id="r1"):
        asked = tracer.traceparent()
    assert asked is not None
    assert asked.startswith(PARENT[:36])
    with tracer.span("something else"), tracer.continued(asked):  # a worker in another thread, later
        compact(warehouse, tracer)
    assert ("compact_table", "POST") in tracer.tree()
    assert ("POST", "elsewhere") in tracer.tree()
    traces = {
        format(span.context.trace_id, "032x") for span in tracer.spans if span.context and span.name != "something else"
    }
    assert traces == {PARENT[3:35]}


@pytest.mark.parametrize("parent", [None, "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
def test_job_without_a_valid_parent_starts_a_trace(parent: str | None) -> None:
    tracer = KeepingTracer()
    with tracer.continued(parent), tracer.span("compact_table"):
        pass
    assert tracer.tree() == {("compact_table", None)}


def test_spans_reach_a_collector_over_http(warehouse: Warehouse, table: Table) -> None:
    with collector() as (address, received):
        tracer = open_tracer(Telemetry(otlp_endpoint=address, service_name="lab"), {})
        compact(warehouse, tracer)
        tracer.close()
    resources = [spans for request in received for spans in request.resource_spans]
    names = [span.name for resource in resources for scope in resource.scope_spans for span in scope.spans]
    assert sorted(names) == ["commit", "compact_table", "execution", "observe", "planning", "task", "verify"]
    said = {pair.key: pair.value.string_value for pair in resources[0].resource.attributes}
    assert said["service.name"] == "lab"


def test_environment_variable_enables_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as (address, received):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        tracer = open_tracer(Telemetry())
        with tracer.span("compact_table"):
            pass
        tracer.close()
    assert len(received) == 1


def test_collector_outage_breaks_no_job(warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    tracer = open_tracer(Telemetry(otlp_endpoint="http://127.0.0.1:9"), {})
    compact(warehouse, tracer, InlineEngine())
    tracer.close()


def test_without_an_exporter_opentelemetry_is_not_imported() -> None:
    lines = (
        "import sys",
        "import tidyberg.app, tidyberg.telemetry.http, tidyberg.telemetry.logs, tidyberg.telemetry.metrics",
        "from tidyberg.settings.telemetry import Telemetry",
        "from tidyberg.telemetry.open_tracer import open_tracer",
        "from tidyberg.telemetry.traces import Tracer",
        "tracer = open_tracer(Telemetry(), {})",
        "assert type(tracer) is Tracer and tracer.traceparent() is None",
        "with tracer.span('x') as span: span.set(a=1)",
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)


def test_missing_package_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tidyberg.telemetry.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigurationError, match=r"tidyberg\[otel\]"):
        open_tracer(Telemetry(otlp_endpoint="http://collector:4318"), {})


@pytest.mark.parametrize("address", ["collector:4318", "grpc://x", "http://"])
def test_endpoint_must_be_an_address(address: str) -> None:
    with pytest.raises(ValueError, match="such as http://collector:4318"):
        Telemetry(otlp_endpoint=address)
