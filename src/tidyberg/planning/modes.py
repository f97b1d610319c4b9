"""How a group is rewritten, and why: row groups moved as bytes, or rows decoded and written anew.

Judged by what manifests tell. They tell nothing of schemas, codecs and statistics inside the files: the worker proves
from the footers that a copy is right, and encodes what it cannot prove. A file whose manifest has no split offsets
counts as one row group. Where that was too good a guess the worker, who sees the row groups, encodes as well.
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
    """For the groups of one table under one set of options; sizes in bytes."""

    asked: RewriteMode
    min_row_group: int
    target: int
    has_parquet_options: bool  # the caller wants Parquet files of another make

    def choose(self, *, deletes: int, moves: bool, size: int, row_groups: int, outputs: int) -> ModeChoice:
        """For a group of `size` bytes in `row_groups` that becomes `outputs` files."""
        if self.asked is RewriteMode.ENCODE:
            return ModeChoice("encode", "asked for")
        if deletes:
            return ModeChoice("encode", "deletes apply")
        if moves:
            return ModeChoice("encode", "rows move to another partition spec")
        average = size / max(1, row_groups)
        # I10: whole row groups must fill every output about as well as rows would.
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
