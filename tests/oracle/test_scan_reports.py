"""Spark on a REST catalog reports its scans, and a service keeps them as Java's REST client sends them."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.builders.api import serving
from tests.oracle.client import Oracle
from tests.oracle.fixtures import give_up
from tests.rest.lab import RestLab
from tests.servers.metrics_forwarder import MetricsForwarder
from tests.servers.rest import RestServer, RestServerMissingError
from tidyberg.api.app import create_app
from tidyberg.app import build_service
from tidyberg.planning.workload.report_filters import shape_condition, shape_words
from tidyberg.settings.settings import Settings

pytestmark = [pytest.mark.oracle]


def test_reports_of_spark_are_kept_by_columns_and_operators(oracle: Oracle, tmp_path: Path) -> None:
    try:
        server = RestServer(tmp_path / "catalog")
    except RestServerMissingError as error:
        give_up(f"Iceberg's REST catalog server could not be started: {error}")
    with server, closing(RestLab(server, tmp_path)) as lab:
        lab.untidy_table(files=4, files_per_commit=2)
        service = build_service(Settings.model_validate(lab.settings()))
        with serving(create_app(service)) as address, MetricsForwarder(server.uri, address) as forwarder:
            java = oracle.attach_rest("reported", forwarder.uri)
            java.sql(f"SELECT * FROM {lab.ref} WHERE id BETWEEN 5 AND 9 AND region = 'r1'")
            java.sql(f"SELECT * FROM {lab.ref} WHERE name LIKE 'n%' OR id IN (1, 2, 3)")
            java.sql(f"SELECT count(*) FROM {lab.ref}")
            java.sql(f"INSERT INTO {lab.ref} VALUES (1, 'r1', 'n')")  # reports a commit
        kept = service.records.ledger.scan_reports(lab.ref)
        service.stop()
    assert {status for _, _, status in forwarder.reports} == {204}
    assert not [body for _, body, _ in forwarder.reports if b"'r1'" in body or b'"r1"' in body], "Java sends no values"
    found = {shape_words(shape_condition(one.shape)): one for one in kept}
    one = found["id <= ? and id >= ? and region = ?"]
    assert (one.reports, one.result_files + one.skipped_files) == (1, 4)
    assert one.planning_nanoseconds > 0
    assert found["id in ? or name starts with ?"].result_files == 4
    assert found["no filter"].result_bytes > 0
    assert sum(one.reports for one in kept) == sum(b'"scan-report"' in body for _, body, _ in forwarder.reports)
    assert b'"commit-report"' in b"".join(body for _, body, _ in forwarder.reports)
