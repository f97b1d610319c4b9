"""Orphans through Iceberg's REST catalog: tables are looked at in parallel, and two in one location are refused."""

from dataclasses import replace

import pytest

from tests.builders.stray_files import backdate_all, put
from tests.rest.lab import SCHEMA, RestLab
from tidyberg.errors import BadInput, SharedFiles
from tidyberg.model.orphans import OrphanOptions

pytestmark = pytest.mark.slow
NOW = OrphanOptions(now=True)


def test_orphans_go_and_two_tables_in_one_location_are_refused(lab: RestLab) -> None:
    table = lab.untidy_table(files=2, files_per_commit=2)
    for number in range(9):
        lab.create_table(f"{lab.namespace}.t{number}", SCHEMA)
    rows = lab.rows(table)
    backdate_all(table)
    lost = put(table, "data/lost.parquet")
    with lab.control() as control:
        found, shared = control.check_locations("rest")
        assert len([one for one in found.tables if one.table.namespace == (lab.namespace,)]) == 10
        assert not [one for one in shared if lab.namespace in one.table.namespace]
        result = control.remove_orphans(lab.ref, NOW)
    assert (result.outcome, result.files.files) == ("deleted", 1)
    assert lost not in lab.files_on_disk(table)
    assert lab.rows(table) == rows
    other = lab.catalog.create_table(f"{lab.namespace}.other", SCHEMA, location=table.location())
    lab.append_files(other, 1, 10)
    backdate_all(table)
    with lab.control() as control:
        for ref in (lab.ref, replace(lab.ref, name="other")):
            with pytest.raises(SharedFiles):
                control.remove_orphans(ref, NOW)
    assert not lab.missing(table)
    assert lab.rows(other)


def test_a_catalog_that_hides_snapshots_is_refused(lab: RestLab) -> None:
    lab.untidy_table(files=1)
    with lab.control() as control:
        control.catalog("rest").properties["snapshot-loading-mode"] = "refs"
        with pytest.raises(BadInput, match="does not show all snapshots"):
            control.plan_orphans(lab.ref, NOW)
