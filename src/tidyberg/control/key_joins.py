"""Applies equality deletes by joins before the groups of a round are rewritten, and removes what the joins wrote."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from pyiceberg.table import Table

from tidyberg.commit.cleanup import remove
from tidyberg.commit.outputs import existing_outputs
from tidyberg.commit.ownership import Ownership
from tidyberg.control.context import JobContext
from tidyberg.execute.engine import Engine
from tidyberg.execute.tasks.key_joins import PlannedJoin, with_joined_rows
from tidyberg.model.report import Notice
from tidyberg.model.shuffle import ShuffleJob, ShuffleResult
from tidyberg.model.task import Task, TaskDelete
from tidyberg.model.words import plural
from tidyberg.storage.access import StorageAccess


@dataclass(frozen=True)
class KeyJoins:
    context: JobContext
    joins: Sequence[PlannedJoin]

    def resolved(self, tasks: Sequence[Task], engine: Engine, storage: StorageAccess) -> list[Task]:
        """Returns the tasks with positions of deleted rows instead of equality deletes."""
        if not self.joins:
            return list(tasks)
        keys = sum(delete.records or 0 for join in self.joins for delete in join.deletes)
        self.context.emit(Notice("info", f"joining {plural(keys, 'deleted key')} with the rows of the table"))
        cores = engine.resources.cores
        surveys = self._run(engine, storage, [join.survey(cores) for join in self.joins])
        jobs = [join.join(surveys[join.number], cores) for join in self.joins]
        results = self._run(engine, storage, jobs)
        record = self.context.record
        tasks_of_joins = [report for result in results.values() for report in (*result.reports, *result.results)]
        peak = max(report.peak_rss_bytes for report in tasks_of_joins)
        record.update(worker_memory_bytes=max(record.job.worker_memory_bytes, peak))
        found: dict[int, list[TaskDelete]] = {group_id: [] for join in self.joins for group_id in join.groups}
        for join in self.joins:
            deletes = join.found(results[join.number].results)
            for group_id in join.groups:
                found[group_id] += deletes
        return with_joined_rows(tasks, found)

    def remove_scratch(self, table: Table) -> None:
        """Removes the files of all joins, also of attempts that failed [I6]. No snapshot references them."""
        record = self.context.record
        intent = record.job.intent
        if not self.joins or intent is None:
            return
        ownership, only_joins = Ownership.of(table, record.job.job_id), intent.only_joins()
        try:
            if not record.may_delete(()):
                return  # a job that took over removes them
            paths = existing_outputs(table.io, only_joins, ownership)
            refused = remove(table.io, paths, only_joins, ownership).refused
            problem = f"{refused[0][0]}: {refused[0][1]}" if refused else None
        except Exception as error:  # noqa: BLE001  # the commits stand even if this fails
            problem = str(error)
        if problem:
            self.context.warn(f"temporary files of a join are kept until the next run: {problem}")
            record.update(unresolved=True)
        else:
            record.conclude_joins()

    def _run(self, engine: Engine, storage: StorageAccess, jobs: Sequence[ShuffleJob]) -> Mapping[int, ShuffleResult]:
        run = engine.shuffle(
            jobs,
            storage,
            cancel=self.context.cancel,
            max_parallelism=self.context.request.options.max_parallelism,
        )
        with closing(run) as results:
            return {result.group_id: result for result in results}
