"""`metadata-files` through Iceberg's REST catalog: the server follows the properties that it sets."""

import pytest
from pyiceberg.table import Table

from tests.rest.lab import RestLab

pytestmark = pytest.mark.slow


def metadata_on_disk(lab: RestLab, table: Table) -> set[str]:
    return {path.rpartition("/")[2] for path in lab.files_on_disk(table) if path.endswith(".metadata.json")}


def test_the_server_keeps_as_many_files_as_the_table_says(lab: RestLab) -> None:
    table = lab.untidy_table(files=5, files_per_commit=1)
    before = table.metadata_location
    with lab.control() as control:
        assert control.metadata_files(lab.ref).report().deletes_old is False
        assert table.refresh().metadata_location == before, "a report commits nothing"
        kept = control.metadata_files(lab.ref).keep(2)
        assert (kept.deletes_old, kept.keep, kept.has_changed) == (True, 2, True)
        assert control.metadata_files(lab.ref).keep(2).has_changed is False
    lab.append_files(table.refresh(), 2, 10, files_per_commit=1)
    log = [one.metadata_file for one in table.refresh().metadata.metadata_log]
    assert len(log) == 2
    used = {one.rpartition("/")[2] for one in (*log, table.metadata_location)}
    assert metadata_on_disk(lab, table) == used
    assert len(lab.rows(table)) == 5 * 20 + 20
    with lab.control() as control:
        assert control.metadata_files(lab.ref).keep_all().deletes_old is False
    before_append = metadata_on_disk(lab, table)
    lab.append_files(table.refresh(), 1, 10)
    assert before_append <= metadata_on_disk(lab, table)
