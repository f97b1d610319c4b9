"""The health score also counts what no rewrite of data files can improve."""

from dataclasses import replace

from tests.builders.scenes import HOUR, NOW, File, Scene, statistics_of
from tidyberg.model.inventory import Inventory
from tidyberg.model.options import PlanOptions
from tidyberg.model.report import Health
from tidyberg.model.sizes import GB, MB
from tidyberg.planning.health import assess
from tidyberg.planning.overhead import DELETE_OLD_METADATA, TableOverhead, overhead_of

TIDY = TableOverhead(snapshots=10, manifests=3, dead_bytes=0, deletes_old_metadata=False)


def health(overhead: TableOverhead) -> Health:
    inventory, options = Scene([File(512 * MB)]).inventory(), PlanOptions()
    return assess(statistics_of(inventory, options), options, 512 * MB, NOW, overhead)


def test_a_table_with_few_snapshots_and_manifests_scores_100() -> None:
    assert health(TIDY) == Health(100, ())


def test_each_kind_of_overhead_costs_points_and_has_a_reason() -> None:
    for overhead, score, words in (
        (replace(TIDY, snapshots=1_000, deletes_old_metadata=True), 90, "1,000 snapshots are kept"),
        (replace(TIDY, manifests=5_000), 95, "5,000 manifests"),
        (replace(TIDY, dead_bytes=2 * GB), 95, "2 GB are kept for older snapshots beside 512 MB that are live"),
        (replace(TIDY, metadata_bytes=10 * MB), 95, "metadata.json has 10 MB, which every commit writes"),
        (replace(TIDY, snapshots=100), 98, "tidyberg metadata-files TABLE --keep 100"),
    ):
        found = health(overhead)
        assert (found.score, len(found.reasons)) == (score, 1), words
        assert words in found.reasons[0]


def test_a_metadata_file_of_usual_or_unknown_size_costs_nothing() -> None:
    assert health(replace(TIDY, metadata_bytes=MB)) == Health(100, ())
    assert health(replace(TIDY, metadata_bytes=None)) == Health(100, ())


def test_dead_bytes_cost_nothing_up_to_the_live_bytes() -> None:
    assert health(replace(TIDY, dead_bytes=512 * MB)).score == 100


def test_only_files_that_a_kept_snapshot_references_are_dead_bytes() -> None:
    inventory = Scene([File()], snapshots=tuple((n, n * HOUR, "replace") for n in (3, 2, 1))).inventory()

    def with_parents(parents: dict[int, int | None]) -> Inventory:
        history = {
            number: replace(info, parent_id=parents[number], summary={"removed-files-size": "100"})
            for number, info in inventory.pinned.snapshots.items()
        }
        properties = {DELETE_OLD_METADATA: "true"}
        return replace(inventory, pinned=replace(inventory.pinned, snapshots=history, properties=properties))

    assert overhead_of(with_parents({3: 99, 2: 3, 1: 2})) == TableOverhead(3, len(inventory.manifests), 200, True)
    assert not overhead_of(inventory).deletes_old_metadata
