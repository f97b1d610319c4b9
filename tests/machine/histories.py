"""Random tables, and random interleavings of writers, compactions, crashes and recoveries on them."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.builders.control import make_control
from tests.machine.checks import check_files, check_lineage, check_pyiceberg, check_rows, check_structure
from tests.machine.steps import Crash, Steps, recover
from tests.machine.world import AMOUNT, AT, CITY, DAYS, HEIGHT, LAYOUTS, NOTE, PLACE, PRICE, REGION, TAGS, World
from tidyberg.errors import Conflict, StalePlan
from tidyberg.model.manifest_rewrite import ManifestOptions
from tidyberg.model.options import PlanOptions, RewriteMode, Strategy, VerifyMode
from tidyberg.model.report import CompactionResult
from tidyberg.model.table import TableRef
from tidyberg.testing import Warehouse

FIRST_STEP = 3  # before it the table was not looked at yet
MAX_STEP = 40  # a compaction in one commit records about half as many steps, one in chunks more
Act = Callable[[], None]
T = TypeVar("T")

# What writers do is drawn from the table as it stands when they do it, and that depends on random names. So it is drawn
# by chance of their own: what hypothesis itself draws must be the same whenever a history is repeated.
CHANCE = st.randoms(use_true_random=True)
BRANCH = "audit"
WRITES = ["append", "rows", "keys", "remove", "rewrite deletes", "schema", "spec", "upgrade", "branch", "expire"]
BEFORE = st.lists(st.sampled_from([*WRITES, "append", "append", "append", "rows", "keys"]), min_size=2, max_size=4)
OPTIONS = st.builds(
    PlanOptions,
    strategy=st.sampled_from(
        [
            Strategy.FULL,
            Strategy.FULL,
            Strategy.SMALL_FILES,
            Strategy.DELETE_FILES,
            Strategy.DELETES_ONLY,
            Strategy.DELETES_ONLY,
            Strategy.AUTO,
        ]
    ),
    where=st.sampled_from([None, None, "region = 'eu'"]),
    target_file_size=st.sampled_from([None, None, 6_000]),
    branch=st.sampled_from(["main"] * 5 + [BRANCH]),
    min_input_files=st.just(2),
    hot_commits=st.just(10_000),
    commit_every=st.sampled_from([None, None, 1]),
    rewrite_to_current_spec=st.sampled_from([False, False, True]),
    ignore_wap_branches=st.sampled_from([True, True, True, False]),
    mode=st.sampled_from([RewriteMode.AUTO, RewriteMode.COPY, RewriteMode.COPY]),
    copy_min_row_group_bytes=st.sampled_from([1, 800]),
)


@dataclass(frozen=True)
class Kept:
    """A table at the end of its history, for other readers."""

    name: str
    rows: list[str]
    commits: int


class Histories(RuleBasedStateMachine):
    """The caller sets `warehouse`, `keep` and `happened`."""

    warehouse: Warehouse
    keep: Callable[[World, int], bool]
    happened: ClassVar[Counter[str]]
    _names = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.name = f"t{next(self._names)}"
        self.ref = TableRef(self.warehouse.name, ("db",), self.name)
        self.jobs = self.warehouse.directory / f"{self.name}-jobs.db"
        self.seen: set[str] = set()
        self.commits = 0

    def teardown(self) -> None:
        if hasattr(self, "world") and not type(self).keep(self.world, self.commits):
            self.warehouse.catalog.purge_table(f"db.{self.name}")
        for file in self.warehouse.directory.glob(f"{self.name}-jobs.db*"):
            file.unlink()

    @initialize(
        layout=st.sampled_from(sorted(LAYOUTS)),
        version=st.sampled_from([1, 2, 2, 3]),
        files=st.integers(4, 6),
        chance=CHANCE,
    )
    def create(self, layout: str, version: int, files: int, chance: Random) -> None:
        self.world = World(self.warehouse, self.name, layout, version)
        for _ in range(files):
            self.world.append("main", some_rows(chance))

    @rule(kinds=st.lists(st.sampled_from(WRITES), min_size=1, max_size=4), chance=CHANCE)
    def write(self, kinds: list[str], chance: Random) -> None:
        for kind in kinds:
            self._draw(kind, chance)()
        self._check()

    @rule(before=BEFORE, chance=CHANCE)
    def rewrite_manifests(self, before: list[str], chance: Random) -> None:
        self.write(before, chance)
        with make_control(self.warehouse, store=Steps(self.jobs)) as control:
            control.rewrite_manifests(self.ref, ManifestOptions(force=True, ignore_wap_branches=True))
        self.world.learn_snapshots()
        self.happened["manifests rewritten"] += 1
        self._check()

    @rule(steps=st.integers(1, 3))
    def roll_back(self, steps: int) -> None:
        self.world.roll_back(steps)
        self._check()

    @rule(before=BEFORE, how=OPTIONS, chance=CHANCE)
    def compact(self, before: list[str], how: PlanOptions, chance: Random) -> None:
        self.write(before, chance)
        result = self._compact(how, Steps(self.jobs))
        if result is None:
            return
        assert not result.groups_left
        self._check()
        if result.outcome == "committed":
            again = self._compact(how, Steps(self.jobs))
            assert again is not None
            assert not again.has_committed, "I10: what is tidy is left alone"

    @rule(
        before=BEFORE,
        how=OPTIONS,
        kinds=st.lists(st.sampled_from([*WRITES, "keys", "rows", "roll back", "compact"]), min_size=1, max_size=3),
        chance=CHANCE,
    )
    def compact_beside_writers(self, before: list[str], how: PlanOptions, kinds: list[str], chance: Random) -> None:
        self.write(before, chance)
        stops = {chance.randint(FIRST_STEP, MAX_STEP): self._draw_later(kind, chance) for kind in kinds}
        numbered = self.world.table.refresh().metadata.format_version > 1
        try:
            result = self._compact(how, Steps(self.jobs, stops))
            self.happened["groups left out"] += len(result.groups_left) if result else 0
        except (Conflict, StalePlan):
            self.happened["conflicts"] += 1
        if not numbered:  # an expired commit of a job looks like one that a cache hides
            recover(self.warehouse, self.jobs, self.ref)
        self._check()

    @rule(
        before=BEFORE,
        how=OPTIONS,
        crash_at=st.integers(1, MAX_STEP),
        kinds=st.lists(st.sampled_from(WRITES), max_size=2),
        resume=st.booleans(),
        chance=CHANCE,
    )
    def crash_and_recover(
        self,
        before: list[str],
        how: PlanOptions,
        crash_at: int,
        kinds: list[str],
        resume: bool,
        chance: Random,
    ) -> None:
        self.write(before, chance)
        try:
            self._compact(how, Steps(self.jobs, crash_at=crash_at))
        except Crash:
            self.happened["crashes"] += 1
        self._check(after_crash=True)
        for kind in kinds:
            self._draw(kind, chance)()
        if resume:  # the next job takes over what the dead one had finished, where it still holds
            self._compact(how, Steps(self.jobs))
            self._check(after_crash=True)
        recover(self.warehouse, self.jobs, self.ref)
        self._check()

    def _compact(self, how: PlanOptions, store: Steps) -> CompactionResult | None:
        """None: there is no such branch."""
        if how.branch not in self.world.table.refresh().metadata.refs:
            store.close()
            return None
        try:
            with make_control(self.warehouse, store=store) as control:
                result = control.compact(self.ref, how, verify=VerifyMode.FULL)
        finally:
            self.world.learn_snapshots()
        self.commits += result.outcome == "committed"
        self.happened[result.outcome] += 1
        self.happened["groups copied"] += result.job.copied.groups
        self.happened["groups encoded instead"] += sum(result.job.copied.encoded_instead.values())
        self.happened["most steps"] = max(self.happened["most steps"], store.steps)
        return result

    def _check(self, *, after_crash: bool = False) -> None:
        check_rows(self.world)
        check_lineage(self.world)
        check_structure(self.world)
        check_pyiceberg(self.world)
        check_files(self.world, self.seen, after_crash=after_crash)

    # Drawing what a writer does: from the table as it stands when it does it.

    def _draw_later(self, kind: str, chance: Random) -> Act:
        def act() -> None:
            self._draw(kind, chance)()

        return act

    def _draw(self, kind: str, chance: Random) -> Act:
        world = self.world
        branch = chance.choice(sorted(world.rows))
        can_delete = world.table.refresh().metadata.format_version > 1 and bool(world.files(branch))
        match kind:
            case "rows" if can_delete:
                return self._draw_rows(branch, chance)
            case "keys" if can_delete:
                return self._draw_keys(branch, chance)
            case "remove" if world.files(branch):
                files = some(chance, world.files(branch), 2)
                return lambda: world.remove_files(branch, files)
            case "rewrite deletes" if can_delete:
                return lambda: world.rewrite_deletes(branch)
            case "schema":
                change = chance.choice(["promote", "promote", "add", "drop", "rename", "nest", "move"])
                return lambda: world.change_schema(change)
            case "spec":
                layout = chance.choice(sorted(LAYOUTS))
                return lambda: world.change_spec(layout)
            case "upgrade":
                return world.upgrade
            case "branch":
                return lambda: world.create_branch(BRANCH)
            case "expire":
                return self._expire
            case "roll back":
                return lambda: world.roll_back(1)
            case "compact":
                return self._compact_elsewhere
        rows = some_rows(chance)
        return lambda: world.append(branch, rows)

    def _draw_rows(self, branch: str, chance: Random) -> Act:
        """Rows of one file, or of several files of one partition."""
        files = self.world.files(branch)
        first = chance.choice(files)
        beside = [file for file in files if (file.spec_id, file.partition) == (first.spec_id, first.partition)]
        more = chance.choices(beside, k=chance.randint(0, 2))
        positions = {
            file.path: sorted(some(chance, range(file.records), file.records))
            for file in {file.path: file for file in (first, *more)}.values()
        }
        file_scoped = len(positions) == 1 and chance.random() < 0.5
        return lambda: self.world.delete_rows(branch, positions, file_scoped=file_scoped)

    def _draw_keys(self, branch: str, chance: Random) -> Act:
        """Keys over one or two columns, for a partition or, in an unpartitioned spec, for the whole table."""
        world = self.world
        fields = [field for field in world.table.schema().fields if field.field_id != TAGS]
        names = [field.name for field in fields if field.field_id != PLACE] + ["place.city"]
        columns = some(chance, names, 2)
        paths = [world.path_to(name) for name in columns]
        known = [row.plain_key(paths) for row in world.rows[branch]]
        # Below a null struct all is null to us; Java takes a null struct and a null within one for different keys.
        known = [
            key
            for key in known
            if not any(value is None and len(path) > 1 for path, value in zip(paths, key, strict=True))
        ]
        keys = chance.choices(known, k=chance.randint(1, 3)) if known else []
        like = chance.choice(world.files(branch))
        plain = world.spec_without_partitions()
        for_all = world.table.specs()[like.spec_id].is_unpartitioned() or (plain is not None and chance.random() < 0.5)
        return lambda: world.delete_keys(branch, columns, keys, None if for_all else like)

    def _expire(self) -> None:
        check_files(self.world, self.seen, after_crash=True)  # what is referenced now was written by someone
        self.world.expire()

    def _compact_elsewhere(self) -> None:
        """Another installation of ours, which knows nothing of this one."""
        jobs = Path(f"{self.jobs}-elsewhere")
        with make_control(self.warehouse, store=Steps(jobs)) as control:
            how = PlanOptions(strategy=Strategy.FULL, min_input_files=2, hot_commits=10_000)
            control.compact(self.ref, how, verify=VerifyMode.FULL)
        self.world.learn_snapshots()


def some_rows(chance: Random) -> list[dict[int, Any]]:
    return [_row(chance) for _ in range(chance.randint(1, 4))]


def _row(chance: Random) -> dict[int, Any]:
    place = {CITY: chance.choice([None, "x", "y"]), HEIGHT: chance.choice([None, 7])}
    return {
        REGION: chance.choice(["eu", "us"]),
        AT: chance.choice(DAYS),
        AMOUNT: chance.choice([None, 0, 1, 2]),
        PRICE: chance.choice([None, 0.5, float("nan"), -0.0, 0.0]),
        NOTE: chance.choice([None, "a", "b"]),
        PLACE: chance.choice([None, place]),
        TAGS: chance.choice([None, [], ["t", None]]),
    }


def some(chance: Random, of: Sequence[T], most: int) -> list[T]:
    """At least one of them, none twice."""
    return chance.sample(of, chance.randint(1, min(most, len(of))))
