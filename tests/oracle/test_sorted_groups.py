"""Java reads tables that were sorted by a shuffle, and sorts their rows as tidyberg does."""

import pytest

from tests.builders.control import make_control
from tests.builders.java_every_type_table import FILTERS, create, insert
from tests.builders.java_tables import NAME
from tests.builders.sorted_plans import shuffle_small_groups
from tests.oracle.client import JavaCatalog
from tidyberg.model.options import PlanOptions, VerifyMode
from tidyberg.model.table import TableRef
from tidyberg.testing import Warehouse, local_path

REF = TableRef("lab", ("db",), "events")


@pytest.mark.parametrize(
    ("asked", "by_spark"),
    [
        (
            {"sort": "bucket(2, id), flag desc, place.label nulls last, small desc nulls first, ratio desc, id"},
            "lab.system.bucket(2, id), flag DESC, place.label NULLS LAST, small DESC NULLS FIRST, ratio DESC, id",
        ),
        ({"hilbert": "name,at"}, None),
    ],
    ids=["sort", "curve"],
)
def test_java_reads_equal_rows_and_finds_them_in_its_own_order(
    warehouse: Warehouse,
    java: JavaCatalog,
    asked: dict[str, str],
    by_spark: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shuffle_small_groups(monkeypatch)
    create(java, **{"write.delete.mode": "merge-on-read"})
    for first in range(0, 4000, 800):
        insert(java, first, first + 800)
    java.sql(f"DELETE FROM {NAME} WHERE id % 31 = 0")
    before, found = java.rows(NAME), {condition: java.rows(NAME, condition) for condition in FILTERS[::3]}
    with make_control(warehouse) as control:
        options = PlanOptions(target_file_size=40_000, force=True, **asked)  # type: ignore[arg-type]
        result = control.compact(REF, options, verify=VerifyMode.FULL)
    assert result.outcome == "committed"
    assert java.rows(NAME) == before
    assert {condition: java.rows(NAME, condition) for condition in found} == found
    files = sorted(local_path(file.path) for file in warehouse.live_files(warehouse.catalog.load_table(NAME)))
    assert len(files) > 2
    assert all("-g00000p000" in path for path in files)
    if by_spark is not None:
        written = [row[0] for path in files for row in java.sql(f"SELECT id FROM parquet.`{path}`")]
        assert written == [row[0] for row in java.sql(f"SELECT id FROM {NAME} ORDER BY {by_spark}")]
