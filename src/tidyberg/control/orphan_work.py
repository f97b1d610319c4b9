"""Removes orphans while a run holds its table: it records what it saw, looks again, then deletes or moves."""

from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table

from tidyberg.control.held_table import HeldTable
from tidyberg.control.orphan_plan import FoundOrphans, OrphanFinder
from tidyberg.control.orphan_sightings import SEEN, Sightings
from tidyberg.control.quarantine import Quarantine, QuarantinedFiles
from tidyberg.errors import AccessDenied, StorageError, TidybergError
from tidyberg.model.job import Stage
from tidyberg.model.orphans import OrphanOptions, OrphanOutcome, OrphanPlan, OrphanResult
from tidyberg.model.report import StageStarted
from tidyberg.model.sizes import format_size
from tidyberg.model.words import plural
from tidyberg.observe.orphans import count_orphans
from tidyberg.storage.moving import FileMove, move_many
from tidyberg.storage.table_files import delete_many

_AT_A_TIME = 8_000  # the table is looked at again before each such batch
_SKEW_MS = 300_000  # a larger difference between two clocks is worth a warning


@dataclass
class OrphanWork:
    finder: OrphanFinder
    options: OrphanOptions
    held: HeldTable
    _moves: dict[str, FileMove] = field(default_factory=dict)  # by source

    def run(self, table: Table) -> OrphanResult:
        self.held.stage(Stage.OBSERVE, f"listing the files of {self.finder.ref}")
        found = self.finder.find(table)
        for text in found.not_checked[:3]:
            self.held.warn(f"not checked for a shared location: {text}")
        for path in found.other_states[:3]:
            self.held.warn(
                f"files that {path} names are kept: the catalog does not know this metadata file. Its commit never "
                "landed, or it landed in another catalog. If nobody uses it, --dead-metadata lets these files go"
            )
        plan = self.finder.plan(found, self.held.services.prices.storage_per_gb_month)
        sightings = Sightings(found.table)
        if not found.seen.num_rows:
            self._remember(sightings, found.elsewhere)
            return self._finish(plan, "nothing", SEEN.empty_table(), {}, 0)
        self.held.stage(Stage.PLAN, f"recording {plural(found.seen.num_rows, 'orphan')}")
        sightings.write(pa.concat_tables([found.seen, found.elsewhere]))
        due = self._by_clock_of_the_store(sightings, found, found.due(self.options))
        plan = self._without_young(plan, due)
        if not due.num_rows:
            return self._finish(plan, "waiting", due, {}, 0)
        quarantined = Quarantine(found.table).of_run(self.held.record.job.job_id) if self.options.quarantine else None
        gone, refused, needed = self._remove(found, due, quarantined)
        left = found.seen.filter(pc.invert(pc.is_in(found.seen["path"], value_set=_paths(gone))))
        self._remember(sightings, pa.concat_tables([left, found.elsewhere]))
        outcome: OrphanOutcome = "partly" if refused else "quarantined" if quarantined is not None else "deleted"
        directory = quarantined.directory if quarantined is not None else None
        return self._finish(plan, outcome, gone, refused, needed, directory)

    def _by_clock_of_the_store(self, sightings: Sightings, found: FoundOrphans, due: pa.Table) -> pa.Table:
        """Ages are differences of the store's own times: this machine's clock may be ahead of them."""
        store_ms = sightings.store_clock_ms()
        if store_ms is None:
            return due
        ahead = self.held.services.now_ms() - store_ms
        if abs(ahead) > _SKEW_MS:
            direction = "ahead of" if ahead > 0 else "behind"
            self.held.warn(f"this machine's clock is {abs(ahead) // 60_000:,} minutes {direction} the storage's clock")
        cutoff = min(found.cutoff_ms, store_ms - self.options.older_than_ms)
        return due.filter(pc.less(due["modified_ms"], cutoff))

    def _without_young(self, plan: OrphanPlan, due: pa.Table) -> OrphanPlan:
        files = count_orphans(due)
        price = plan.dollars_per_month * files.bytes / plan.files.bytes if plan.files.bytes else 0.0
        return replace(plan, files=files, dollars_per_month=price)

    def _remove(
        self, found: FoundOrphans, due: pa.Table, quarantined: QuarantinedFiles | None
    ) -> tuple[pa.Table, dict[str, str], int]:
        """Returns what is gone, what storage refused, and how many files are referenced now."""
        verb = "moving" if quarantined is not None else "deleting"
        self.held.stage(Stage.EXECUTE, f"{verb} {plural(due.num_rows, 'orphan')}")
        gone: list[pa.Table] = []
        refused: dict[str, str] = {}
        needed = 0
        if quarantined is not None:
            due = self._still_orphans(found, due)
            self._moves = {move.source: move for move in quarantined.prepare(due)}
        for start in range(0, due.num_rows, _AT_A_TIME):
            self.held.check_ownership()
            batch = due.slice(start, _AT_A_TIME)
            orphans = self._still_orphans(found, batch)
            needed += batch.num_rows - orphans.num_rows
            said = self._remove_batch(found.table, orphans, quarantined)
            refused |= said
            gone.append(orphans.filter(pc.invert(pc.is_in(orphans["path"], value_set=pa.array(list(said), _TEXT)))))
            self.held.emit(StageStarted(Stage.EXECUTE, f"{verb}: {start + batch.num_rows:,} of {due.num_rows:,} done"))
        return pa.concat_tables([SEEN.empty_table(), *gone]), refused, needed

    def _still_orphans(self, found: FoundOrphans, files: pa.Table) -> pa.Table:
        """Loads the table again. What a snapshot or a run needs now stays, whoever committed it meanwhile [I6]."""
        found.table = self.finder.load(self.held.record.job.table_uuid)
        self.finder.leave_out(found.table, found.search, found.reached)
        self.finder.keep_doubtful(found.search)
        return files.filter(pc.is_in(files["path"], value_set=_paths(found.search.files)))

    def _remove_batch(self, table: Table, files: pa.Table, quarantined: QuarantinedFiles | None) -> dict[str, str]:
        paths: list[str] = files["path"].to_pylist()
        if quarantined is None:
            return delete_many(table.io, paths, check=self.held.check_ownership)
        return move_many(table.io, [self._moves[path] for path in paths], self.held.check_ownership)

    def _remember(self, sightings: Sightings, left: pa.Table) -> None:
        try:
            if left.num_rows:
                sightings.write(left)
            else:
                sightings.remove()
        except TidybergError as error:  # the next run finds out by itself which of them are gone
            self.held.warn(f"the list of seen orphans is not up to date: {error}")

    def _finish(
        self,
        plan: OrphanPlan,
        outcome: OrphanOutcome,
        gone: pa.Table,
        refused: dict[str, str],
        needed: int,
        directory: str | None = None,
    ) -> OrphanResult:
        verb = "moved" if directory else "deleted"
        failure = refused_files(refused, "orphan", verb, "The next run tries again.")
        result = OrphanResult(
            plan=plan,
            outcome=outcome,
            files=count_orphans(gone),
            referenced_meanwhile=needed,
            refused=len(refused),
            first_refused=first_refused(refused),
            quarantine=directory,
            failure=failure,
        )
        return replace(result, job=self.held.finish(in_words(result), failure))


_TEXT = pa.large_string()


def _paths(files: pa.Table) -> pa.Array:
    return files["path"].combine_chunks()


def in_words(result: OrphanResult) -> str:
    if result.outcome in ("nothing", "waiting"):
        return f"no orphan deleted: {result.plan.reason}"
    verb = "moved to quarantine" if result.quarantine else "deleted"
    return f"{plural(result.files.files, 'orphan')} {verb}, {format_size(result.files.bytes)}"


def refused_files(refused: dict[str, str], noun: str, verb: str, hint: str) -> TidybergError | None:
    """Returns the error of a run that could not delete or move some files."""
    if not refused:
        return None
    denied = all("denied" in said.lower() or "forbidden" in said.lower() for said in refused.values())
    return (AccessDenied if denied else StorageError)(
        f"{plural(len(refused), noun)} could not be {verb}, first {first_refused(refused)}.", hint=hint
    )


def first_refused(refused: dict[str, str]) -> str | None:
    return next((f"{path} ({said})" for path, said in sorted(refused.items())), None)
