"""Takes over what a dead job had finished: its plan and the outputs of its groups, where they still hold [I6, I7].

Only what a new job of the same request would do again is taken over, and only after recovery has found out that the
dead job's last commit neither landed nor can land with these outputs. They get a new owner before the dead job is
settled: whoever fails next removes them.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tidyberg._version import __version__
from tidyberg.commit.conflicts import hindrance, validate_groups
from tidyberg.commit.outputs import check_outputs
from tidyberg.control.journal import JobRecord
from tidyberg.control.recovery import Finding, Recovery, open_groups
from tidyberg.control.workbench import Workbench
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
from tidyberg.record.store import Finished, JobStore
from tidyberg.storage.access import storage_access
from tidyberg.verify.delete_paths import DeletePaths
from tidyberg.verify.groups import verify_group


@dataclass(frozen=True)
class Adopted:
    """What a new job goes on with."""

    plan: Plan  # with those groups only that are not committed
    finished: dict[int, Finished]
    name_mapping: str | None

    @property
    def results(self) -> dict[int, TaskResult]:
        return {group_id: finished.result for group_id, finished in self.finished.items()}

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(file.path for result in self.results.values() for file in result.outputs)

    def hand_over(self, record: JobRecord) -> None:
        """Make them the new job's, so that nothing is without an owner when the old one is settled."""
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


@dataclass(frozen=True)
class Request:
    """What the new job was asked, and what it found."""

    bench: Workbench
    plan: Plan | None  # the very plan to run, if one was given
    inventory: Inventory
    max_output_age_ms: int


def settle_others(store: JobStore, recovery: Recovery, request: Request) -> Adopted | None:
    """The new job holds the table: any other that claims to run is dead. Returns what one of them had finished."""
    bench, job = request.bench, request.bench.record.job
    adopted: Adopted | None = None
    for dead in store.find(table=job.table, unfinished=True, limit=1000):
        if dead.job_id == job.job_id or dead.table_uuid != job.table_uuid:
            continue  # a job of another table that had this name may live: `tidyberg recover` asks for its lease
        bench.emit(StageStarted(Stage.RECOVER, f"settling job {dead.job_id}, which died"))
        finding = recovery.examine(bench.catalog, dead)
        taken = recovery.taken_over(dead)
        if adopted is None and (adopted := adoptable(store, dead, finding, request, taken)) is not None:
            adopted.hand_over(bench.record)
            done = len(adopted.finished)
            bench.emit(Notice("info", f"job {dead.job_id} had rewritten {plural(done, 'group')}: going on from there"))
        bench.emit(Notice("info", recovery.conclude(dead, finding)))
    return adopted


def adoptable(
    store: JobStore, dead: Job, finding: Finding | None, request: Request, taken: Collection[str] = ()
) -> Adopted | None:
    """What can be taken over of a dead job, but for outputs that others have taken; None where that is nothing."""
    if finding is None or finding.table is None or finding.doubt:
        return None
    plan = _same_plan(store, dead, request)
    if plan is None:
        return None
    open_now, now_ms = open_groups(dead, finding), request.bench.now_ms()
    plan = replace(plan, groups=tuple(group for group in plan.groups if group.group_id in open_now))
    young = [
        finished
        for finished in store.finished(dead.job_id)
        if now_ms - finished.finished_ms < request.max_output_age_ms
        and (finding.referenced | frozenset(taken)).isdisjoint(file.path for file in finished.result.outputs)
    ]
    held = dict(_that_hold(plan, young, finding, request))
    return Adopted(plan, held, request.inventory.pinned.name_mapping) if held else None


def _same_plan(store: JobStore, dead: Job, request: Request) -> Plan | None:
    """The dead job's plan, when it is the one to run, or the request is the same and the table of the same shape."""
    document = store.plan(dead.job_id)
    if document is None:
        return None
    try:
        plan = plan_from_json(document)
    except BadPlan:  # another version wrote it
        return None
    pinned = request.inventory.pinned
    if request.plan is not None:
        is_asked = plan.hash == request.plan.hash
    else:
        bench, where = request.bench, request.bench.options.where
        resolved = None
        if where is not None:
            _, resolved = parse_predicate(where, pinned.schema, bench.now_ms(), fields_of(pinned))
        is_asked = dead.options == bench.record.job.options and plan.resolved_where == resolved
    fits = (
        plan.tool_version == __version__
        and plan.branch == pinned.branch
        and plan.schema_id == pinned.schema.schema_id
        and plan.format_version == pinned.format_version
        and dead.intent is not None
        and dead.intent.name_mapping == pinned.name_mapping
        and hindrance(plan, pinned) is None
    )
    return plan if is_asked and fits else None


def _that_hold(
    plan: Plan, finished: Sequence[Finished], finding: Finding, request: Request
) -> Iterator[tuple[int, Finished]]:
    """Groups whose inputs are still in the table as the plan saw them, and whose outputs are whole."""
    groups: dict[int, FileGroup] = {group.group_id: group for group in plan.groups}
    known = [done for done in finished if done.result.group_id in groups]
    validation = validate_groups([groups[done.result.group_id] for done in known], request.inventory, plan)
    valid = {replaceable.group.group_id for replaceable in validation.replaceable}
    paths_of = DeletePaths(storage_access(finding.io))
    for done in known:
        group_id = done.result.group_id
        if group_id not in valid or (request.bench.verify is VerifyMode.FULL and done.result.checksum is None):
            continue
        if not finding.files.issuperset(output.path for output in done.result.outputs):
            continue  # a record says what it likes: only files that are the dead job's own are committed
        if not all(output.digest for output in done.result.outputs):
            continue  # copied: quickly done again, and nobody has seen the bytes that were written
        try:
            check_outputs(finding.io, [done.result])
            verify_group(groups[group_id], done.result, request.inventory.pinned, plan.deletes, paths_of)
        except (DamagedFile, VerificationFailed):
            continue
        yield group_id, done
