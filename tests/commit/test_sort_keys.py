"""The summary of a snapshot names the order of its sorted files, because manifests have no place for every order."""

from dataclasses import replace
from pathlib import Path

from tests.builders.finished_groups import commit_all, plan_of
from tidyberg.model.plan import SORT_KEY
from tidyberg.model.sort_key import Curve, SortField, SortKey, sort_key_text
from tidyberg.testing import Warehouse

CURVE = SortKey((SortField(1), SortField(2)), Curve.HILBERT)


def test_a_commit_of_sorted_groups_names_their_key(tmp_path: Path) -> None:
    with Warehouse(tmp_path) as warehouse:
        table = warehouse.create_table()
        warehouse.append_files(table, 3, 5)
        plan = plan_of(table)
        groups = tuple(replace(group, mode="sort", sort_key=CURVE) for group in plan.groups)
        commit_all(table, replace(plan, groups=groups))
        sorted_by = table.refresh().current_snapshot()
        assert sorted_by is not None
        assert sorted_by.summary is not None
        assert sorted_by.summary[SORT_KEY] == "hilbert(1,2)"
        warehouse.append_files(table, 3, 5)
        commit_all(table)
        merged = table.refresh().current_snapshot()
        assert merged is not None
        assert merged.summary is not None
        assert merged.summary[SORT_KEY] is None


def test_the_text_of_a_key_tells_every_order_apart() -> None:
    fields = [
        (SortField(1),),
        (SortField(2),),
        (SortField(1, descending=True),),
        (SortField(1, nulls_last=True),),
        (SortField(1, "bucket[4]"),),
        (SortField(1), SortField(2)),
    ]
    keys = [SortKey(each) for each in fields] + [SortKey(fields[-1], curve) for curve in Curve]
    assert len({sort_key_text(key) for key in keys}) == len(keys)
    assert sort_key_text(SortKey(fields[0], order_id=7)) == sort_key_text(SortKey(fields[0]))
