"""Full verification refuses outputs with false statements, except those that their inputs made too."""

from pathlib import Path

import pytest
from pyiceberg.table import Table

from tests.builders.checked_files import metadata, put, statistics
from tests.builders.events_table import REF
from tests.builders.footers import edit_footer
from tidyberg.control.control import Control
from tidyberg.errors import VerificationFailed
from tidyberg.execute.kernel import run
from tidyberg.execute.kernel.attempt import RewriteAttempt
from tidyberg.execute.kernel.rewrite import rewrite
from tidyberg.model.options import PlanOptions, RewriteMode, Strategy, VerifyMode
from tidyberg.model.task import TaskResult
from tidyberg.parquet.check.file import check_path
from tidyberg.parquet.fields import MetadataField
from tidyberg.parquet.thrift import Struct
from tidyberg.testing import Warehouse
from tidyberg.testing.warehouse import local_path


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return warehouse.append_files(warehouse.create_table(), 4, 100)


@pytest.mark.parametrize("mode", [RewriteMode.COPY, RewriteMode.ENCODE])
def test_an_output_with_a_false_statement_is_not_committed(
    warehouse: Warehouse, table: Table, control: Control, monkeypatch: pytest.MonkeyPatch, mode: RewriteMode
) -> None:

    def spoil(attempt: RewriteAttempt) -> TaskResult:
        result = rewrite(attempt)
        assert result.mode == mode
        # As many bytes as before: a number that takes one byte either way.
        edit_footer(Path(local_path(result.outputs[0].path)), lambda footer: put(statistics(footer, 0), 3, 5))
        return result

    monkeypatch.setattr(run, "rewrite", spoil)
    snapshot, before = table.refresh().current_snapshot(), warehouse.files_on_disk(table)
    options = PlanOptions(strategy=Strategy.FULL, min_input_files=2, mode=mode)
    with pytest.raises(VerificationFailed, match=r"say what is not true: .*the number of nulls is 5"):
        control.compact(REF, options, verify=VerifyMode.FULL)
    assert table.refresh().current_snapshot() == snapshot
    assert warehouse.files_on_disk(table) == before


def count_one_page_more(footer: Struct) -> None:
    for entry in metadata(footer, 0)[MetadataField.ENCODING_STATS][1].items:
        put(entry, 3, entry[3][1] + 1)


def test_false_statements_of_inputs_are_copied(warehouse: Warehouse, table: Table, control: Control) -> None:
    for file in warehouse.live_files(table):
        path = Path(local_path(file.path))
        size = path.stat().st_size
        edit_footer(path, count_one_page_more)
        assert path.stat().st_size == size
    options = PlanOptions(strategy=Strategy.FULL, min_input_files=2, mode=RewriteMode.COPY)
    result = control.compact(REF, options, verify=VerifyMode.FULL)
    assert result.job.copied.groups == 1
    (output,) = warehouse.live_files(table)
    assert {problem.rule for problem in check_path(local_path(output.path)).problems} == {"encoding-stats"}
