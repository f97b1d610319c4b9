"""The scenarios: a table, the way it is rewritten, and how much faster than Java the rewrite must be."""

from dataclasses import dataclass, replace

import pyarrow as pa

from benchmarks.delete_files import Deletes
from benchmarks.rows import KINDS


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    title: str
    files: int
    rows_per_file: int
    rows: str = "events"  # the kind of rows
    deletes: Deletes | None = None
    partitions: int = 0  # by a column `shard` that is constant in each file; 0 means not partitioned
    by_java: bool = False  # Spark writes its files with Iceberg's Java writers; otherwise PyIceberg does
    row_group_rows: int = 1_048_576
    mode: str = "auto"
    target_mb: int = 128
    times_faster: float = 1.0  # than Java's rewrite_data_files: the target
    core: bool = False  # part of the short run
    in_memory: bool = True  # small enough for an opponent that holds all rows in memory
    warm_up_files: int | None = None  # of the table that warms up both sides; None: a tenth of the files, within limits

    @property
    def for_duckdb(self) -> bool:
        """The DuckDB recipe ignores delete files, and 1,000 partitions took it over 12 minutes."""
        return self.deletes is None and self.in_memory and not self.partitions

    @property
    def for_s3(self) -> bool:
        """True if the table has few enough objects to upload within seconds."""
        return self.files <= 400

    def with_files(self, files: int) -> "Scenario":
        return replace(self, files=files)

    def small(self) -> "Scenario":
        """Returns a scenario of the same shape with few files, to warm up both sides."""
        files = self.warm_up_files or min(40, max(8, min(self.files // 10, 800_000 // self.rows_per_file)))
        deletes = replace(self.deletes, equality_files=min(2, self.deletes.equality_files)) if self.deletes else None
        return replace(self, files=files, deletes=deletes, partitions=files // 10 if self.partitions else 0)

    def rows_of(self, number: int) -> pa.Table:
        """Returns the rows of one file."""
        rows = KINDS[self.rows](number, self.rows_per_file)
        if not self.partitions:
            return rows
        shard = pa.scalar(number % self.partitions, pa.int32())
        return rows.append_column("shard", pa.repeat(shard, self.rows_per_file))


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "copy", "40 files of 48 MB, one row group each", 40, 1_210_000,
            row_group_rows=1_210_000, mode="copy", target_mb=512, times_faster=20.0, core=True, in_memory=False,
        ),
        Scenario("encode", "100 small files", 100, 100_000, times_faster=3.5, core=True),
        Scenario(
            "position-deletes", "100 small files, 2 % of rows under position deletes", 100, 100_000,
            deletes=Deletes(per_file=1, positions=2_000, equality_files=0), times_faster=4.0, core=True,
        ),
        Scenario(
            "equality-deletes", "100 small files, 1 % of rows under equality deletes", 100, 100_000,
            deletes=Deletes(per_file=0, equality_files=10, keys=10_000), times_faster=4.0, core=True,
        ),
        Scenario("spark-files", "100 small files written by Spark", 100, 125_000, by_java=True,
                 times_faster=3.5, core=True),
        Scenario("encode-large", "400 small files", 400, 100_000, times_faster=4.0, in_memory=False),
        Scenario("delete-piles", "1,000 small files under 11,000 delete files", 1_000, 10_000,
                 deletes=Deletes(per_file=10, positions=20, equality_files=1_000, keys=100), times_faster=4.0),
        Scenario("tiny-files", "10,000 tiny files", 10_000, 1_000, times_faster=3.0),
        Scenario(
            "partitioned", "1,000 partitions of 10 tiny files", 10_000, 500, partitions=1_000,
        ),
        Scenario("wide", "200 columns", 25, 10_000, rows="wide"),
        Scenario("nested", "structs, lists and maps", 50, 40_000, rows="nested"),
        Scenario("texts", "mostly texts", 50, 25_000, rows="texts"),
    )
}  # fmt: skip
