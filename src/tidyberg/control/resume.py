"""Continues what a dead job had finished: its plan, and the outputs of its groups where they are still valid [I6, I7].

A job adopts only groups that it would otherwise rewrite itself. Before that, recovery has found out that the dead job's
last commit neither landed nor can land with these outputs. The outputs get their new owner before the dead job is
concluded, so that the next failure still removes them.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tidyberg._version import __version__
from tidyberg.commit.conflicts import refusal_to_commit, validate_groups
from tidyberg.commit.outputs import check_outputs
from tidyberg.control.context import JobContext
from tidyberg.control.journal import JobRecord
from tidyberg.control.recovery import Finding, open_groups
from tidyberg.errors import BadPlan, DamagedFile, VerificationFailed
from tidyberg.model.inventory import Inventory
from tidyberg.model.job import Intent, Job, Stage
from tidyberg.model.options import VerifyMode
from tidyberg.model.plan import FileGroup, Plan
from tidyberg.model.report import Notice, StageStarted
from tidyberg.model.task import TaskResult
from tidyberg.model.words import plural
from tidyberg.planning.document import plan_from_json, plan_to_json
from tidyberg.planning.predicate import parse_predicate
from tidyberg.planning.select import fields_of
from tidyberg.record.store import Finished
from tidyberg.storage.access import storage_access
from tidyberg.verify.delete_paths import DeletePaths
from tidyberg.verify.groups import verify_group


@dataclass(frozen=True)
class Adopted:
    """The work that a dead job had finished. A new job continues it."""

    plan: Plan  # without the groups that are committed
    finished: dict[int, Finished]
    name_mapping: str | None

    @property
    def results(self) -> dict[int, TaskResult]:
        return {group_id: finished.result for group_id, finished in self.finished.items()}

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(file.path for result in self.results.values() for file in result.outputs)

    def hand_over(self, record: JobRecord) -> None:
        """Makes the new job the owner, so that every output has one when the dead job is concluded."""
        record.save_plan(plan_to_json(self.plan))
        for finished in self.finished.values():
            record.save_finished(finished.result, finished.finished_ms)
        record.update(
            plan_hash=self.plan.hash,
            intent=Intent(
                job_id=record.job.job_id,
                sequence_number=self.plan.sequence_number,
                directories={},
                attempts=0,
                outputs={},
                settle_seconds=0.0,
                adopted={group_id: tuple(file.path for file in r.outputs) for group_id, r in self.results.items()},
                name_mapping=self.name_mapping,
            ),
        )


def adopt_from_dead_jobs(context: JobContext, inventory: Inventory, max_output_age_ms: int) -> Adopted | None:
    """Recovers the dead jobs of the table, and adopts what one of them had finished.

    The calling job holds the table, so every other job of it that is still open is dead.
    """
    job, store, recovery = context.record.job, context.services.store, context.recovery()
    adoption = _Adoption(context, inventory, max_output_age_ms)
    adopted: Adopted | None = None
    for dead in store.find(table=job.table, unfinished=True, limit=1000):
        if dead.job_id == job.job_id or dead.table_uuid != job.table_uuid:
            continue  # a job of another table that had this name may be alive: `tidyberg recover` asks for its lease
        context.emit(StageStarted(Stage.RECOVER, f"recovering job {dead.job_id}, which died"))
        finding = recovery.examine(context.catalog, dead)
        taken = recovery.taken_over(dead)
        if adopted is None and (adopted := adoption.find(dead, finding, taken)) is not None:
            adopted.hand_over(context.record)
            done = plural(len(adopted.finished), "group")
            context.emit(Notice("info", f"job {dead.job_id} had rewritten {done}: continuing from there"))
        context.emit(Notice("info", recovery.conclude(dead, finding)))
    return adopted


@dataclass(frozen=True)
class _Adoption:
    """Decides what the new job can adopt."""

    context: JobContext
    inventory: Inventory
    max_output_age_ms: int

    def find(self, dead: Job, finding: Finding | None, taken: Collection[str]) -> Adopted | None:
        """Returns None if there is nothing to adopt. `taken` are outputs that other jobs have adopted."""
        if finding is None or finding.table is None or finding.doubt:
            return None
        plan = self._same_plan(dead)
        if plan is None:
            return None
        open_now, now_ms = open_groups(dead, finding), self.context.services.now_ms()
        plan = replace(plan, groups=tuple(group for group in plan.groups if group.group_id in open_now))
        young = [
            finished
            for finished in self.context.services.store.finished(dead.job_id)
            if now_ms - finished.finished_ms < self.max_output_age_ms
            and (finding.referenced | frozenset(taken)).isdisjoint(file.path for file in finished.result.outputs)
        ]
        valid = dict(self._valid(plan, young, finding))
        return Adopted(plan, valid, self.inventory.pinned.name_mapping) if valid else None

    def _same_plan(self, dead: Job) -> Plan | None:
        """The dead job's plan, if it answers the same request and still fits the table."""
        document = self.context.services.store.plan(dead.job_id)
        if document is None:
            return None
        try:
            plan = plan_from_json(document)
        except BadPlan:  # another version wrote it
            return None
        pinned, request = self.inventory.pinned, self.context.request
        if request.plan is not None:
            is_asked = plan.hash == request.plan.hash
        else:
            now_ms, where = self.context.services.now_ms(), request.options.where
            resolved = None
            if where is not None:
                _, resolved = parse_predicate(where, pinned.schema, now_ms, fields_of(pinned))
            is_asked = dead.options == self.context.record.job.options and plan.resolved_where == resolved
        fits = (
            plan.tool_version == __version__
            and plan.branch == pinned.branch
            and plan.schema_id == pinned.schema.schema_id
            and plan.format_version == pinned.format_version
            and dead.intent is not None
            and dead.intent.name_mapping == pinned.name_mapping
            and refusal_to_commit(plan, pinned) is None
        )
        return plan if is_asked and fits else None

    def _valid(self, plan: Plan, finished: Sequence[Finished], finding: Finding) -> Iterator[tuple[int, Finished]]:
        """Groups whose inputs are in the table as the plan saw them, and whose outputs are complete."""
        groups: dict[int, FileGroup] = {group.group_id: group for group in plan.groups}
        known = [done for done in finished if done.result.group_id in groups]
        validation = validate_groups([groups[done.result.group_id] for done in known], self.inventory, plan)
        valid = {replaceable.group.group_id for replaceable in validation.replaceable}
        access = storage_access(finding.io)
        paths_of = DeletePaths(access)
        for done in known:
            group_id = done.result.group_id
            needs_checksum = self.context.request.verify is VerifyMode.FULL and not groups[group_id].keeps_data
            if group_id not in valid or (needs_checksum and done.result.checksum is None):
                continue
            if not finding.files.issuperset(output.path for output in done.result.outputs):
                continue  # a record may be forged: only the dead job's own files are committed
            if not all(output.digest for output in done.result.outputs):
                continue  # a copy is quickly repeated, and nobody has checked the bytes that were written
            try:
                check_outputs(finding.io, [done.result])
                verify_group(groups[group_id], done.result, self.inventory.pinned, plan.deletes, paths_of, access)
            except (DamagedFile, VerificationFailed):
                continue
            yield group_id, done
