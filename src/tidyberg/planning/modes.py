"""Chooses how a group is rewritten, and says why: row groups are copied as bytes, or rows are decoded and encoded.

The choice is made from manifests alone. They say nothing about the schemas, codecs and statistics inside the files. The
worker therefore checks the footers, and encodes if it cannot prove that a copy is right. A file without split offsets
in its manifest counts as one row group. If it turns out to have many small ones, the worker encodes as well.
"""

from dataclasses import dataclass
from typing import NamedTuple

from tidyberg.model.options import PlanOptions, RewriteMode
from tidyberg.model.plan import Mode


class ModeChoice(NamedTuple):
    mode: Mode
    reason: str


@dataclass(frozen=True, slots=True)
class ModeRule:
    """The rule for all groups of a plan. Sizes are in bytes."""

    asked: RewriteMode
    min_row_group: int
    target: int
    has_parquet_options: bool  # the caller sets Parquet options, which a copy cannot follow

    def choose(
        self, *, deletes: int, moves: bool, size: int, row_groups: int, outputs: int, in_order: bool = False
    ) -> ModeChoice:
        """Chooses the mode of a group that has `size` bytes in `row_groups` and becomes `outputs` files.

        `in_order` says that all files claim the table's sort order. Copies would follow each other and overlap.
        """
        if in_order and (self.asked is not RewriteMode.COPY or deletes or moves):
            return ModeChoice("merge", "files are in the table's order")
        if self.asked is RewriteMode.ENCODE:
            return ModeChoice("encode", "asked for")
        if deletes:
            return ModeChoice("encode", "deletes apply")
        if moves:
            return ModeChoice("encode", "rows move to another partition spec")
        average = size / max(1, row_groups)
        # I10: outputs made of whole row groups must be filled about as evenly as outputs made of rows.
        if outputs > 1 and average > self.target / 2:
            return ModeChoice("encode", "row groups too large to be divided")
        if self.asked is RewriteMode.COPY:
            return ModeChoice("copy", "asked for")
        if self.has_parquet_options:
            return ModeChoice("encode", "Parquet options asked for")
        if average < self.min_row_group:
            return ModeChoice("encode", "small row groups")
        return ModeChoice("copy", "large row groups")


def mode_rule(options: PlanOptions, *, target: int) -> ModeRule:
    return ModeRule(
        asked=options.mode,
        min_row_group=options.copy_min_row_group_bytes,
        target=target,
        has_parquet_options=bool(options.parquet),
    )
