"""Events of commits lead to looks: deduplicated, debounced, with a cooldown, and decided as `auto` decides."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.builders.job_stores import Place, SqlitePlace
from tests.builders.services import FakeClock, untidy_table
from tidyberg.app import build_control
from tidyberg.errors import AccessDenied, CatalogUnreachable
from tidyberg.model.principal import LOCAL, Principal, Role
from tidyberg.model.submission import Query, Submission
from tidyberg.record.clock import wall_clock_ms
from tidyberg.service.access import Access
from tidyberg.service.auto_mode import AutoMode
from tidyberg.service.event_inbox import EventsTaken
from tidyberg.service.event_looks import EventLooks
from tidyberg.service.event_parsing import ReceivedEvent
from tidyberg.service.service import Service
from tidyberg.settings.options import plan_options
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

SECOND = 1000
Make = Callable[..., "Replica"]


class Replica:
    def __init__(self, settings: Settings, clock: FakeClock, place: Place) -> None:
        self.clock = clock
        records = place.open()
        control = build_control(settings, records.store)
        control.now_ms = clock
        self.service = Service(settings, control, records, Access(settings.tenants), now_ms=clock)
        self.looks = EventLooks(self.service, AutoMode(self.service))

    def send(self, key: str, table: str = "db.events", who: Principal = LOCAL, **event: Any) -> EventsTaken:
        return self.service.receive([ReceivedEvent(key, table, **event)], who)

    def look_after(self, seconds: float) -> list[str]:
        """Returns the tables of all jobs so far."""
        self.clock.now_ms += int(seconds * SECOND)
        self.looks.look()
        return [str(job.table) for job in self.jobs()]

    def jobs(self) -> list[Submission]:
        return list(self.service.records.queue.submissions(Query(newest_first=False, limit=500)).submissions)

    def wanted(self) -> int:
        return len(self.service.records.ledger.due_looks(self.clock() + 10**9, 100))


@pytest.fixture
def make(warehouse: Warehouse) -> Iterator[Make]:
    clock, made = FakeClock(wall_clock_ms()), list[Replica]()  # snapshots have the time of the wall clock
    place = SqlitePlace(warehouse.directory / "jobs.db")

    def build(*, tenants: Any = None, budget: float = 1.0, **events: Any) -> Replica:
        given = {
            "engine": "inline",
            "catalogs": {"lab": warehouse.properties},
            "default_catalog": "lab",
            "compaction": {"min_input_files": 2},
            "tenants": tenants or {},
            "scheduler": {
                "auto": {"max_dollars_per_day": budget, "max_payback_scans": 10**9},
                "events": {"enabled": True, "debounce_seconds": 10, "max_wait_seconds": 30, **events},
            },
        }
        made.append(Replica(Settings.model_validate(given), clock, place))
        return made[-1]

    yield build
    for replica in made:
        replica.service.records.close()


def test_a_commit_leads_to_a_job_if_the_look_finds_one_worth_it(make: Make, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    untidy_table(warehouse, "db.tidy", files=1)
    replica = make()
    assert replica.send("1") == EventsTaken(1, 0, ())
    replica.send("2", "db.tidy")
    assert replica.look_after(9) == []
    assert replica.look_after(1) == ["db.events"]
    (job,) = replica.jobs()
    assert (job.created_by, job.kind) == ("auto", "compact")
    assert replica.wanted() == 0


def test_an_event_that_arrives_twice_counts_once(make: Make, warehouse: Warehouse) -> None:
    replica, other = make(), make()
    assert replica.send("1") == EventsTaken(1, 0, ())
    assert other.send("1") == EventsTaken(0, 1, ())
    replica.clock.now_ms += 25 * 3_600_000
    assert replica.send("1") == EventsTaken(1, 0, ())


def test_a_busy_table_is_looked_at_when_it_is_quiet_or_when_it_waited_long_enough(
    make: Make, warehouse: Warehouse
) -> None:
    untidy_table(warehouse)
    replica = make()
    for second in range(0, 28, 7):
        replica.send(str(second))
        assert replica.look_after(7) == []
    assert replica.look_after(2) == ["db.events"]


def test_a_table_rests_between_two_looks(make: Make, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    replica = make(cooldown_seconds=600)
    replica.send("1")
    assert len(replica.look_after(10)) == 1
    replica.service.cancel(replica.jobs()[0].job_id, LOCAL)
    warehouse.append_files(warehouse.catalog.load_table("db.events"), 5, 20)
    replica.send("2")
    assert len(replica.look_after(599)) == 1
    assert len(replica.look_after(1)) == 2


def test_our_own_commit_leads_to_no_job(make: Make, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    replica = make(cooldown_seconds=0)
    replica.send("1")
    assert len(replica.look_after(120)) == 1
    replica.service.cancel(replica.jobs()[0].job_id, LOCAL)
    control, ref = replica.service.control, replica.jobs()[0].table
    assert control.compact(ref, plan_options(replica.service.settings, ref, {"force": True})).snapshot_id
    planned = list[object]()
    replica.looks.auto.look_over = lambda *_: planned.append(1) or True  # type: ignore[method-assign, func-returns-value]
    replica.send("2")
    assert len(replica.look_after(100)) == 1
    assert replica.wanted() == 0
    assert planned == [], "nobody but us has committed, so no manifest is read"


def test_one_of_several_replicas_looks(make: Make, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    replicas = [make() for _ in range(3)]
    replicas[0].send("1")
    replicas[1].send("2")
    assert [replica.look_after(10) for replica in replicas] == [["db.events"]] * 3


def test_a_look_waits_for_the_lease_the_budget_and_the_catalog(
    make: Make, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    untidy_table(warehouse)
    first, second = make(), make()
    first.send("1")
    with first.looks.auto.turn():
        assert second.look_after(10) == []
    poor = make(budget=0.0)
    assert poor.look_after(0) == []
    assert poor.wanted() == 1

    def away(*_: Any) -> Any:
        raise CatalogUnreachable("away")

    with monkeypatch.context() as patch:
        patch.setattr("tidyberg.service.event_looks.load_table", away)
        assert second.look_after(0) == []
    assert second.look_after(59) == []
    assert second.look_after(1) == ["db.events"]


def test_metadata_files_lead_to_the_table_of_their_location(make: Make, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    replica = make()
    location = warehouse.catalog.load_table("db.events").metadata_location
    assert replica.send("1", "", location=location) == EventsTaken(1, 0, ())
    replica.send("2", "", location="s3://elsewhere/db/events/metadata/1.metadata.json")
    assert replica.look_after(10) == ["db.events"]
    assert replica.wanted() == 0


def test_events_name_catalogs_as_the_settings_map_them(make: Make, warehouse: Warehouse) -> None:
    replica = make(catalogs={"warehouse-7": "lab"})
    assert replica.send("1", catalog="warehouse-7").accepted == 1
    assert replica.send("2", catalog="whatever").accepted == 1, "there is only one"
    assert replica.send("3", table="a..b").ignored


def test_senders_need_a_role_and_their_own_tables(make: Make, warehouse: Warehouse) -> None:
    replica = make(tenants={"a": {"namespaces": ["db"]}, "b": {"namespaces": ["other"]}})
    mine, other = (Principal("sender", Role.OPERATOR, tenant) for tenant in "ab")
    assert replica.send("1", who=mine).accepted == 1
    for who, table, location in (
        (other, "db.events", ""),
        (mine, "", "s3://b/t/metadata/1.metadata.json"),
        (Principal("reader", Role.VIEWER), "db.events", ""),
    ):
        with pytest.raises(AccessDenied):
            replica.send("2", table, who, location=location)
    entries = replica.service.audit(LOCAL)
    assert {(entry.action, entry.outcome) for entry in entries} == {
        ("event.receive", "allowed"),
        ("event.receive", "denied"),
    }


def test_a_service_takes_no_events_by_default(make: Make, warehouse: Warehouse) -> None:
    with pytest.raises(AccessDenied, match="takes no events"):
        make(enabled=False).send("1")


def test_events_need_a_budget() -> None:
    with pytest.raises(ValueError, match="budget"):
        Settings.model_validate({"scheduler": {"events": {"enabled": True}}})
