"""From a table that a job holds to what the job does to it: observed, dead jobs settled, planned or taken over."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyiceberg.table import Table

from tidyberg.control.pipeline import Planned
from tidyberg.control.planner import Planner
from tidyberg.control.recovery import DIED, Recovery
from tidyberg.control.resume import Request, settle_others
from tidyberg.control.workbench import Workbench
from tidyberg.errors import TableReplaced
from tidyberg.model.job import Stage
from tidyberg.model.plan import FileGroup, Plan
from tidyberg.model.report import StageStarted
from tidyberg.model.words import plural
from tidyberg.settings.catalogs import load_table


@dataclass(frozen=True)
class Preparation:
    bench: Workbench
    planner: Planner
    recovery: Recovery  # as the job that holds the table
    given: Plan | None  # the very plan to run
    max_output_age_ms: int

    def prepare(self) -> Planned:
        """Observe, settle jobs that died, and plan, or go on with what one of them had finished."""
        bench, record = self.bench, self.bench.record
        record.update(stage=Stage.OBSERVE)
        bench.emit(StageStarted(Stage.OBSERVE, f"reading the manifests of {record.job.table}"))
        table = self._load_same()
        inventory = self.planner.observe(table, record.job.table, bench.options)
        record.update(stage=Stage.RECOVER)
        request = Request(bench, self.given, inventory, self.max_output_age_ms)
        adopted = settle_others(self.planner.store, self.recovery, request)
        record.update(stage=Stage.PLAN)
        after_death = self._is_after_death()
        if adopted is not None:
            return Planned(table, inventory, adopted.plan, adopted.results, after_death)
        plan = self.given or self.planner.plan(inventory, bench.options)
        return Planned(table, inventory, plan, after_death=after_death)

    def _is_after_death(self) -> bool:
        """Whether the last job on the table died, and maybe of its files: Arrow does not survive all damage."""
        job = self.bench.record.job
        last = [other for other in self.planner.store.find(table=job.table, limit=2) if other.job_id != job.job_id]
        return bool(last) and last[0].error_code == DIED

    def plan_again(self, left: Sequence[FileGroup], first_group: int) -> Planned:
        """Observe again and plan for the partitions of these groups, within what they had of the job's limits."""
        record, options = self.bench.record, self.bench.options
        record.update(stage=Stage.OBSERVE)
        self.bench.emit(StageStarted(Stage.OBSERVE, f"planning {plural(len(left), 'group')} again that conflicted"))
        table = self._load_same()
        inventory = self.planner.observe(table, record.job.table, options)
        if options.max_files is not None:
            options = replace(options, max_files=sum(len(group.files) for group in left))
        if options.max_cost is not None:
            options = replace(options, max_cost=sum(group.estimate.dollars for group in left))
        partitions = frozenset((group.spec_id, group.partition_path) for group in left)
        plan = self.planner.plan(inventory, options, only=partitions, first_group=first_group)
        return Planned(table, inventory, plan)

    def _load_same(self) -> Table:
        """The table that the job holds, and not one that was made anew under its name."""
        job = self.bench.record.job
        table = load_table(self.bench.catalog, job.table)
        if str(table.metadata.table_uuid) != job.table_uuid:
            raise TableReplaced(f"{job.table} was dropped and created anew meanwhile.", hint="Try again.")
        return table
