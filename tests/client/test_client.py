"""The client of the API, against a real service."""

import asyncio
import time
from collections.abc import Callable

import httpx
import pytest

from tidyberg.client import AsyncClient, Client, Schedule
from tidyberg.client.calls import JobListArguments
from tidyberg.client.stream import EventReader
from tidyberg.errors import BadInput, IdempotencyMismatch, ServiceUnreachable, UnknownJob, UnknownTable
from tidyberg.model.job import JobStatus
from tidyberg.testing import Warehouse


def test_a_job_is_submitted_watched_and_ends(client: Client, warehouse: Warehouse) -> None:
    created = client.submit("events", strategy="full", options={"target_file_size": "64MB"})
    events = list(client.watch(created.job_id))
    job = client.wait(created.job_id, timeout_seconds=60)
    assert (job.status, job.outcome) == (JobStatus.SUCCEEDED, "committed")
    assert job.stats is not None
    assert job.stats.files_compacted == 12
    assert [event.kind for event in events if event.kind == "end"] == ["end"]
    assert "execute" in {event.data.get("stage") for event in events}
    numbers = [event.number for event in events if event.number is not None]
    assert numbers == sorted(set(numbers))
    assert [event.number for event in client.watch(created.job_id, after=numbers[-2])] == [numbers[-1], None]


def test_a_plan_is_made_and_applied(client: Client) -> None:
    plan = client.plan("public.events", strategy="full")
    assert plan.groups >= 1
    job = client.wait(client.apply(plan.plan_hash).job_id, timeout_seconds=60)
    assert (job.outcome, job.plan_hash) == ("committed", plan.plan_hash)


def test_cursors_lead_to_all_jobs(client: Client) -> None:
    made = [client.submit("public.sales", key=f"k{number}").job_id for number in range(5)]
    found: list[str] = []
    which: JobListArguments = {"table": "public.sales", "oldest_first": True, "limit": 2}
    while True:
        page = client.jobs(**which)
        found += [job.job_id for job in page.jobs]
        if page.next_cursor is None:
            break
        which["cursor"] = page.next_cursor
    assert found == made
    assert client.jobs(status=[JobStatus.FAILED]).jobs == []


def test_idempotency_key_makes_one_job(client: Client) -> None:
    first = client.submit("public.sales", key="once")
    assert client.submit("public.sales", key="once").job_id == first.job_id
    with pytest.raises(IdempotencyMismatch):
        client.submit("public.sales", key="once", strategy="full")


def test_errors_of_the_service_keep_their_class_and_hint(client: Client) -> None:
    with pytest.raises(UnknownTable):
        client.submit("public.nothing")
    with pytest.raises(UnknownJob):
        client.job("no-such-job")
    with pytest.raises(UnknownJob):
        list(client.watch("no-such-job"))
    with pytest.raises(BadInput, match="target_file_size"):
        client.submit("public.events", options={"target_file_size": "huge"})


def test_tables_health_and_schedules(client: Client) -> None:
    assert {table.table for table in client.tables()} == {"events", "sales"}
    assert client.health("default", "public", "events").files == 12
    saved = client.save_schedule(Schedule(schedule_id="nightly", cron="0 2 * * *", table="public.events"))
    assert [one.schedule_id for one in client.schedules() if one.schedule_id == "nightly"] == [saved.schedule_id]
    client.delete_schedule("nightly")
    assert "nightly" not in {one.schedule_id for one in client.schedules()}
    assert client.ready().status == "ok"


def test_asyncio_client_has_the_same_calls(url: str) -> None:
    async def session() -> tuple[str | None, list[str]]:
        async with AsyncClient(url) as client:
            created = await client.submit("events", strategy="full")
            kinds = [event.kind async for event in client.watch(created.job_id)]
            job = await client.wait(created.job_id, timeout_seconds=60)
            assert [one.job_id for one in (await client.jobs()).jobs] == [created.job_id]
            with pytest.raises(UnknownJob):
                await client.cancel("no-such-job")
            return job.outcome, kinds

    outcome, kinds = asyncio.run(session())
    assert outcome == "committed"
    assert kinds[-1] == "end"


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert methods(Client) == methods(AsyncClient)


# Transports simulate the network.

Handler = Callable[[httpx.Request], httpx.Response]


def played(handler: Handler, retries: int = 3) -> Client:
    return Client("http://service", retries=retries, transport=httpx.MockTransport(handler))


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Records how long clients paused. Pauses of a second or more are skipped."""
    paused: list[float] = []
    sleep = time.sleep

    def note(seconds: float) -> None:
        paused.append(seconds)
        sleep(min(seconds, 0.2))

    monkeypatch.setattr("tidyberg.client.client.time.sleep", note)
    return paused


CREATED = {"job_id": "j", "status": "queued", "created_at": "2024-01-15T10:00:00Z"}


def test_lost_response_is_retried_with_the_same_key() -> None:
    keys = []

    def lose_the_first(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        if len(keys) == 1:
            raise httpx.ReadError("the connection broke")
        return httpx.Response(202, json=CREATED)

    assert played(lose_the_first).submit("t").job_id == "j"
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_client_waits_for_retry_after(pauses: list[float]) -> None:
    answers = [httpx.Response(429, headers={"Retry-After": "7"}, json={"code": "quota-exceeded", "detail": "full"})]

    def busy_once(request: httpx.Request) -> httpx.Response:
        return answers.pop() if answers else httpx.Response(202, json=CREATED)

    assert played(busy_once).submit("t").job_id == "j"
    assert pauses == [7.0]


def test_client_gives_up_on_a_service_that_never_answers() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused")

    with pytest.raises(ServiceUnreachable, match="http://service"):
        played(refuse, retries=1).job("j")


def test_bad_requests_are_not_retried() -> None:
    asked = []

    def refuse(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(422, json={"code": "some-new-code", "detail": "no", "hint": "do that"})

    with pytest.raises(Exception, match="no do that") as caught:
        played(refuse).job("j")
    assert caught.value.code == "some-new-code"  # type: ignore[attr-defined]
    assert len(asked) == 1


def test_responses_of_other_programs_are_recognized() -> None:
    with pytest.raises(BadInput, match="Check that the address"):
        played(lambda _: httpx.Response(404, text="<html>nothing</html>")).job("j")


@pytest.mark.parametrize("url", ["service:8080", "ftp://service", "http://", "not a url", "http://me:secret@service"])
def test_addresses_are_checked_and_no_password_is_repeated(url: str) -> None:
    with pytest.raises(BadInput) as caught:
        Client(url)
    assert "secret" not in str(caught.value)


def test_broken_stream_continues_after_the_last_event() -> None:
    asked = []

    def break_once(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers["Last-Event-ID"])
        if len(asked) == 1:
            return httpx.Response(200, text='id: 4\nevent: stage\ndata: {"stage": "plan"}\n\nid: 5\nevent: st')
        return httpx.Response(200, text='id: 5\nevent: stage\ndata: {}\n\nevent: end\ndata: {"status": "failed"}\n\n')

    events = list(played(break_once).watch("j", after=3))
    assert [event.number for event in events] == [4, 5, None]
    assert asked == ["3", "4"]


def test_multi_line_events_are_read_completely() -> None:
    reader = EventReader()
    lines = [": alive", "retry: 2000", "", "id: 2", "event: notice", 'data: {"message":', 'data: "two lines"}', ""]
    events = [event for line in lines if (event := reader.line(line))]
    assert [(event.number, event.kind, event.data) for event in events] == [(2, "notice", {"message": "two lines"})]
