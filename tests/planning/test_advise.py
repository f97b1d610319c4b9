"""Advice on write properties and on writers: what is advised, why, and when nothing is."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.builders.scenes import HOUR, NOW, File, Scene
from tidyberg.model.advice import Advice, Writer, WriterAdvice
from tidyberg.model.options import Calibration, PlanOptions, Prices, Resources
from tidyberg.model.sizes import GB, KB, MB
from tidyberg.model.table import JOB_ID, SnapshotInfo
from tidyberg.planning.advise import APPLIED_AT, DAY_MS, Adviser
from tidyberg.planning.price import pricing_for
from tidyberg.planning.writers import writer_of

MINUTE = HOUR // 60
FLINK = {"flink.job-id": "6d2", "flink.operator-id": "1"}
SPARK = {"engine-name": "spark", "app-id": "app-1", "spark.app.id": "app-1"}
CONNECT = {"kafka.connect.offsets.control-iceberg.events-sink": "{}", "kafka.connect.commit-id": "x"}
TIDY = {"write.metadata.delete-after-commit.enabled": "true"}


def commits(
    writer: Mapping[str, str], number: int, every_ms: int, *, files: int = 1, size: int = MB, partitions: int = 1
) -> list[dict[str, object]]:
    """Commits that end now. `size` is the size of one file."""
    summary = {
        **writer,
        "added-data-files": str(files),
        "added-files-size": str(files * size),
        "changed-partition-count": str(partitions),
    }
    return [{"timestamp_ms": NOW - every_ms * n, "summary": summary} for n in range(number)]


def advise(
    *history: dict[str, object],
    properties: Mapping[str, str] = TIDY,
    partitioned: bool = True,
    options: PlanOptions | None = None,
    prices: Prices | None = None,
    operation: str = "append",
) -> Advice:
    scene = Scene([File()], properties=properties, partitioned=partitioned)
    snapshots = {
        number: SnapshotInfo(**{"snapshot_id": number, "parent_id": None, "sequence_number": number,
                                   "operation": operation, **one})  # type: ignore[arg-type]
        for number, one in enumerate(history, 1)
    }  # fmt: skip
    pinned = replace(scene.inventory().pinned, snapshots=snapshots)
    chosen = options or PlanOptions()
    pricing = pricing_for(chosen, properties, prices or Prices(), Calibration(), Resources(), pinned.location)
    return Adviser(pinned, chosen, pricing, NOW, 7 * DAY_MS).advise()


def only_writer(advice: Advice) -> WriterAdvice:
    (found,) = advice.writers
    return found


def settings_of(advice: Advice) -> dict[str, str]:
    return {one.name: one.value for one in only_writer(advice).settings}


def test_a_writer_is_recognised_by_what_its_sink_writes_into_summaries() -> None:
    assert writer_of(FLINK) == Writer("flink", "6d2")
    assert writer_of(SPARK) == Writer("spark", "app-1")
    assert writer_of({"spark.app.id": "local-1"}) == Writer("spark", "local-1")
    assert writer_of(CONNECT) == Writer("kafka connect", "control-iceberg.events-sink")
    assert writer_of({"kafka.connect.commit-id": "x"}) == Writer("kafka connect")
    assert writer_of({"trino_query_id": "2026_1", "engine-name": "trino"}) == Writer("trino")
    assert writer_of({"added-records": "3"}) == Writer("unknown")


def test_a_stream_that_commits_too_often_is_told_a_longer_interval() -> None:
    for writer, name, value in (
        (FLINK, "execution.checkpointing.interval", "60 min"),
        (CONNECT, "iceberg.control.commit.interval-ms", "3600000"),
        (SPARK, "trigger or schedule", "60 min"),
        ({}, "time between commits", "60 min"),
    ):
        assert settings_of(advise(*commits(writer, 100, MINUTE, size=200 * KB))) == {name: value}


def test_the_interval_is_as_long_as_files_need_and_no_longer() -> None:
    advice = advise(*commits(FLINK, 100, MINUTE, size=8 * MB))
    (setting,) = only_writer(advice).settings
    assert setting.value == "5 min"  # four minutes make 32 MB
    assert "it commits every 1 min now; files would have about 40 MB" in setting.why
    (setting,) = only_writer(advise(*commits(FLINK, 100, MINUTE, files=30, partitions=30, size=100 * KB))).settings
    assert "a commit writes to 30 partitions, and compaction has to do the rest" in setting.why


def test_a_writer_that_commits_once_an_hour_is_not_told_to_wait() -> None:
    found = only_writer(advise(*commits(FLINK, 100, HOUR)))
    assert found.makes_small_files
    assert found.settings == ()


def test_files_of_several_tasks_in_one_partition_need_hash_distribution() -> None:
    scattered = commits(FLINK, 50, HOUR, files=40, partitions=2)
    for given in ({}, {"write.distribution-mode": "none"}):
        (found,) = advise(*scattered, properties={**TIDY, **given}).properties
        assert (found.name, found.advised) == ("write.distribution-mode", "hash")
        assert found.current == given.get("write.distribution-mode")
        assert "2,000 files of flink 6d2 where 100 would do" in found.why
    done = advise(*scattered, properties={**TIDY, "write.distribution-mode": "hash"})
    assert done.properties == ()
    assert settings_of(done) == {"write-parallelism": "2"}


def test_hash_distribution_is_not_advised_where_it_changes_nothing() -> None:
    """Spark distributes by default, Kafka Connect never does, and a table without partitions cannot be distributed."""
    for writer, partitioned, expected in (
        (SPARK, True, {"spark.sql.iceberg.advisory-partition-size": str(512 * MB)}),
        (SPARK, False, {"hint": "/*+ REBALANCE */"}),
        (FLINK, False, {"write-parallelism": "1"}),
        (CONNECT, True, {"tasks.max": "1"}),
        ({}, True, {"files in a commit": "1 file"}),
    ):
        advice = advise(*commits(writer, 50, HOUR, files=40), partitioned=partitioned)
        assert (advice.properties, settings_of(advice)) == ((), expected), writer
    (found,) = advise(
        *commits(SPARK, 50, HOUR, files=40), properties={**TIDY, "write.distribution-mode": "none"}
    ).properties
    assert found.name == "write.distribution-mode"


def test_large_files_and_few_files_are_no_problem() -> None:
    for history in (commits(SPARK, 50, HOUR, files=4, size=300 * MB), commits(SPARK, 7, DAY_MS, files=1)):
        advice = advise(*history)
        assert advice.is_empty
        assert (only_writer(advice).makes_small_files, only_writer(advice).cost) == (False, None)


def test_compactions_are_no_writers() -> None:
    replaced = commits(SPARK, 50, MINUTE, files=40)
    assert advise(*replaced, operation="replace").writers == ()
    assert advise(*commits({**SPARK, JOB_ID: "1"}, 50, MINUTE, files=40)).writers == ()


def test_seldom_applications_of_an_engine_are_counted_together() -> None:
    daily = [
        one for number in range(6) for one in commits({"engine-name": "spark", "app-id": f"app-{number}"}, 2, HOUR)
    ]
    often = commits({"engine-name": "spark", "app-id": "stream"}, 60, MINUTE)
    assert {str(one.history.writer) for one in advise(*daily, *often).writers} == {
        "spark (6 applications)",
        "spark stream",
    }


def test_cost_a_day_comes_from_the_prices() -> None:
    free = Prices(0, 0, 0, 0)
    history = commits(FLINK, 24 * 60 * 2, MINUTE, files=10)  # two days
    cost = only_writer(advise(*history, prices=replace(free, put_per_1000=1.0))).cost
    assert cost is not None
    assert (cost.files, cost.needed_files) == (14_405, 29)  # 14,400 MB a day
    assert cost.put_dollars == pytest.approx((14_405 - 29) / 1000)
    assert only_writer(advise(*history, prices=free)).cost == replace(
        cost, put_dollars=0, compaction_dollars=0, scan_dollars=0
    )
    reading = only_writer(advise(*history, prices=replace(free, get_per_1000=1.0))).cost
    assert reading is not None
    assert reading.scan_dollars == pytest.approx((2 * 14_405 - 29 * 5) / 1000)
    assert reading.compaction_dollars > 14.4, "each file is read once"
    assert reading.dollars == reading.compaction_dollars


def test_a_history_shorter_than_a_day_is_not_projected() -> None:
    cost = only_writer(advise(*commits(FLINK, 60, MINUTE))).cost
    assert cost is not None
    assert cost.files == 60


def test_the_most_expensive_writer_comes_first() -> None:
    advice = advise(*commits(SPARK, 20, HOUR), *commits(FLINK, 20, HOUR, files=50))
    assert [one.history.writer.engine for one in advice.writers] == ["flink", "spark"]


def test_without_commits_there_is_no_history() -> None:
    for history in ([], commits(FLINK, 3, MINUTE)):
        old = [{**one, "timestamp_ms": NOW - 30 * DAY_MS, "parent_id": 77} for one in history]
        advice = advise(*old)
        assert (advice.writers, advice.span.commits, advice.span.is_cut) == ((), 0, bool(history))


def test_commits_before_the_advised_properties_were_set_do_not_count() -> None:
    history = commits(FLINK, 100, MINUTE, files=10)
    applied = NOW - 10 * MINUTE
    advice = advise(*history, properties={**TIDY, APPLIED_AT: str(applied)})
    assert advice.span.since_applied
    assert only_writer(advice).history.commits == 10
    assert advise(*history, properties={**TIDY, APPLIED_AT: str(NOW)}).is_empty


def test_a_property_that_is_set_well_is_not_advised() -> None:
    assert advise(properties=TIDY).properties == ()
    for given in (
        {"write.target-file-size-bytes": str(128 * MB)},
        {"write.parquet.compression-codec": "ZSTD"},
        {"write.parquet.compression-codec": "lz4"},
        {"write.parquet.row-group-size-bytes": str(64 * MB)},
        {"write.metadata.previous-versions-max": "500"},
    ):
        assert advise(properties={**TIDY, **given}).is_empty, given


def test_a_property_that_is_set_badly_is_advised_until_it_is_changed() -> None:
    for name, bad, good in (
        ("write.target-file-size-bytes", str(MB), str(512 * MB)),
        ("write.target-file-size-bytes", "large", str(512 * MB)),
        ("write.parquet.compression-codec", "snappy", "zstd"),
        ("write.parquet.compression-codec", "uncompressed", "zstd"),
        ("write.parquet.compression-codec", "gzip", "zstd"),
        ("write.parquet.row-group-size-bytes", str(MB), str(128 * MB)),
        ("write.parquet.row-group-size-bytes", str(GB), str(128 * MB)),
        ("write.metadata.previous-versions-max", "50000", "100"),
        ("write.metadata.delete-after-commit.enabled", "false", "true"),
    ):
        (found,) = advise(properties={**TIDY, name: bad}).properties
        assert (found.name, found.current, found.advised) == (name, bad, good)
        assert found.why
        assert advise(properties={**TIDY, name: good}).properties == ()


def test_metadata_files_of_a_table_that_shares_them_are_left_alone() -> None:
    assert advise(properties={"gc.enabled": "false"}).properties == ()
    assert [one.name for one in advise(properties={}).properties] == ["write.metadata.delete-after-commit.enabled"]


def test_the_target_of_the_settings_is_advised_for_writers_too() -> None:
    options = PlanOptions(target_file_size=GB)
    (found,) = advise(options=options).properties
    assert (found.current, found.advised) == (None, str(GB))
    assert advise(options=options, properties={**TIDY, "write.target-file-size-bytes": str(GB)}).is_empty
    assert advise(options=PlanOptions(target_file_size=512 * MB)).is_empty, "this is the default of every writer"
