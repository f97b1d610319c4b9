"""Redis is down, restarts, fails over, runs out of memory or loses answers: nothing is lost or done twice."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import NoPermissionError

from tests.builders.job_stores import nobody_knows
from tests.builders.submissions import MANY, fill, submission, take, take_all, token
from tests.servers.redis import RedisServer
from tests.servers.wire import Wire
from tidyberg.errors import ConfigurationError, StoreUnreachable
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import AuditEntry, KeptPlan, Schedule
from tidyberg.model.table import TableRef
from tidyberg.record import redis_client
from tidyberg.record.records import Records
from tidyberg.record.redis_health import redis_health
from tidyberg.record.redis_records import open_redis


@contextmanager
def opened(server: RedisServer, port: int | None = None) -> Iterator[Records]:
    url = server.url.replace(str(server.port), str(port or server.port))
    with closing(open_redis(url, "tidyberg:", nobody_knows)) as records:
        yield records


@pytest.fixture
def records(redis_server: RedisServer) -> Iterator[Records]:
    with opened(redis_server) as records:
        yield records


ENTRY = AuditEntry(0, 5, "ada", "default", "job.submit", "x", "allowed")
CALLS: list[Callable[[Records], Any]] = [
    lambda records: records.queue.submit(submission("a")),
    lambda records: records.queue.claim("w", now_ms=0, ttl_ms=10, limits=MANY),
    lambda records: records.queue.submission("a"),
    lambda records: records.store.get("a"),
    lambda records: records.store.renew("t", "a", now_ms=0, ttl_ms=1),
    lambda records: records.ledger.append_audit(ENTRY),
    lambda records: records.ledger.schedules(),
]


def test_while_redis_is_down_every_call_reports_it_and_no_data_is_lost(redis_to_kill: RedisServer) -> None:
    with opened(redis_to_kill) as records:
        fill(records.queue, ("a", "t", "a"), ("b", "u", "a"), ("c", "t", "b"))
        running = take(records.queue, ttl_ms=10**6)
        records.queue.update("a", token(running), {"run_id": "run"})
        records.ledger.append_audit(ENTRY)
        before = [records.queue.submission(job_id) for job_id in "abc"]
        redis_to_kill.kill()
        for call in CALLS:
            with pytest.raises(StoreUnreachable, match=r"did not answer.*Check that Redis runs") as caught:
                call(records)
            assert redis_to_kill.password not in str(caught.value)
        redis_to_kill.start()
        assert [records.queue.submission(job_id) for job_id in "abc"] == before
        assert [entry.number for entry in records.ledger.audit()] == [1]
        assert records.queue.beat("a", token(running), now_ms=1, ttl_ms=10) == "held"
        assert take_all(records.queue, now_ms=1) == ["b"]
        assert records.queue.finish("a", token(running), JobStatus.SUCCEEDED, now_ms=2, changes={})
        assert take_all(records.queue, now_ms=2) == ["c"]


def test_calls_to_a_redis_that_hangs_time_out(redis_to_kill: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_client, "ANSWER_SECONDS", 0.2)
    with opened(redis_to_kill) as records:
        assert take_all(records.queue) == []
        fill(records.queue, ("a", "t", "a"), ("b", "u", "a"))
        redis_to_kill.pause()
        with pytest.raises(StoreUnreachable):
            take(records.queue)
        redis_to_kill.go_on()
        # What was sent first is read late: it claims a job for nobody, until the claim runs out.
        while ("a", JobStatus.RUNNING) not in records.queue.counts():
            time.sleep(0.01)
        assert records.queue.counts() == {("a", JobStatus.RUNNING): 1, ("a", JobStatus.QUEUED): 1}
        assert take(records.queue, now_ms=1000).job_id == "a"


def test_a_redis_that_forgot_its_scripts_is_given_them_again(redis_server: RedisServer, records: Records) -> None:
    with redis_server.client() as client:
        client.script_flush()
    fill(records.queue, ("a", "t", "a"))
    with redis_server.client() as client:
        client.script_flush()
    assert take(records.queue).job_id == "a"


def test_a_full_redis_accepts_no_partial_change(redis_server: RedisServer, records: Records) -> None:
    fill(records.queue, ("a", "t", "a"))
    with redis_server.client() as client:
        keys = sorted(client.scan_iter())
        client.config_set("maxmemory", 1)
        with pytest.raises(StoreUnreachable, match="maxmemory"):
            records.queue.submit(submission("b"))
        with pytest.raises(StoreUnreachable, match="maxmemory"):
            take(records.queue)
        assert sorted(client.scan_iter()) == keys
        client.config_set("maxmemory", 0)
    assert take_all(records.queue) == ["a"]


def test_a_wrong_password_is_named_but_not_shown(redis_server: RedisServer) -> None:
    with closing(open_redis(f"redis://:hunter2@127.0.0.1:{redis_server.port}", "p:", nobody_knows)) as records:
        with pytest.raises(StoreUnreachable, match=r"the password in store\.url") as caught:
            records.queue.counts()
        assert "hunter2" not in str(caught.value)


def test_an_address_that_cannot_be_read_is_not_quoted() -> None:
    with pytest.raises(ConfigurationError, match=r"store\.url") as caught:
        open_redis("http://:hunter2@host", "p:", nobody_knows)
    assert "hunter2" not in str(caught.value)


def test_prefixes_keep_stores_apart(redis_server: RedisServer, records: Records) -> None:
    fill(records.queue, ("a", "t", "a"))
    with closing(open_redis(redis_server.url, "other:", nobody_knows)) as other:
        assert take_all(other.queue) == []
        fill(other.queue, ("b", "t", "a"))
    with redis_server.client() as client:
        assert {str(key).partition(":")[0] for key in client.scan_iter()} == {"tidyberg", "other"}
    assert take_all(records.queue) == ["a"]


@pytest.fixture
def wire(redis_server: RedisServer) -> Iterator[Wire]:
    with Wire(redis_server.port) as wire:
        yield wire


@pytest.fixture
def far(redis_server: RedisServer, wire: Wire) -> Iterator[Records]:
    """Records at the other end of the wire."""
    with opened(redis_server, wire.port) as records:
        records.queue.counts()  # connected
        yield records


def test_a_claim_whose_answer_was_lost_is_answered_again(far: Records, wire: Wire) -> None:
    fill(far.queue, ("a", "t", "a"), ("b", "u", "a"))
    with wire.losing_answers(2):
        claimed = take(far.queue)
    assert (claimed.job_id, claimed.attempts) == ("a", 1)
    assert far.queue.counts() == {("a", JobStatus.RUNNING): 1, ("a", JobStatus.QUEUED): 1}
    assert far.queue.beat("a", token(claimed), now_ms=1, ttl_ms=10) == "held"


def test_a_call_without_an_answer_takes_effect_once(far: Records, wire: Wire) -> None:
    queue, ledger = far.queue, far.ledger
    with wire.losing_answers():
        queue.submit(submission("a"), key="k")
    with wire.losing_answers():
        queue.add_event("a", 1, "notice", {})
    assert [event.number for event in queue.events("a")] == [1]
    claimed = take(queue)
    with wire.losing_answers():
        assert queue.put_back("a", token(claimed), not_before_ms=1, reason="later")
    claimed = take(queue, now_ms=1)
    with wire.losing_answers():
        assert queue.finish("a", token(claimed), JobStatus.FAILED, now_ms=9, changes={"error": "why"})
    assert not queue.finish("a", token(claimed), JobStatus.FAILED, now_ms=9, changes={})
    with wire.losing_answers():
        assert ledger.append_audit(ENTRY).number == 1
    assert ledger.append_audit(ENTRY).number == 2
    ledger.save_schedule(Schedule("s", "* * * * *", None, "t"))
    with wire.losing_answers():
        assert ledger.delete_schedule("s")
    assert not ledger.delete_schedule("s")
    assert queue.counts() == {("default", JobStatus.FAILED): 1}


def test_when_the_last_answer_is_lost_too_the_claim_runs_out(far: Records, wire: Wire) -> None:
    fill(far.queue, ("a", "t", "a"))
    with wire.losing_answers(3), pytest.raises(StoreUnreachable):
        take(far.queue, ttl_ms=10)
    assert take_all(far.queue, now_ms=9) == []
    assert take(far.queue, now_ms=10).attempts == 1, "what is taken over goes on"


def test_jobs_continue_on_a_replica_that_became_master(redis_to_kill: RedisServer, tmp_path: Path) -> None:
    (tmp_path / "replica").mkdir()
    with (
        RedisServer(tmp_path / "replica", password=redis_to_kill.password) as replica,
        Wire(redis_to_kill.port) as wire,
        opened(redis_to_kill, wire.port) as records,
        replica.client() as client,
    ):
        client.config_set("masterauth", redis_to_kill.password)
        client.replicaof("127.0.0.1", redis_to_kill.port)
        fill(records.queue, ("a", "t", "a"), ("b", "t", "a"))
        first = take(records.queue)
        with redis_to_kill.client() as master:
            assert master.wait(1, 10_000) == 1
        wire.lay_to(replica.port)
        with pytest.raises(StoreUnreachable, match="read only replica"):
            records.queue.submit(submission("c"))
        redis_to_kill.kill()
        client.replicaof("NO", "ONE")
        assert records.queue.beat("a", token(first), now_ms=1, ttl_ms=10) == "held"
        assert records.queue.finish("a", token(first), JobStatus.SUCCEEDED, now_ms=2, changes={})
        assert token(take(records.queue)) > token(first)


def test_tokens_increase_even_if_the_last_ones_were_lost(redis_server: RedisServer, records: Records) -> None:
    """A failover can lose the last writes. The holder of a lost claim must differ from the holder of the next one."""
    fill(records.queue, ("a", "t", "a"))
    with redis_server.client() as client:
        kept = {key: client.dump(key) for key in client.scan_iter()}
        lost = take(records.queue)
        client.flushall()
        for key, value in kept.items():
            client.restore(key, 0, value)
    found = take(records.queue)
    assert token(found) > token(lost)
    assert records.queue.beat("a", token(lost), now_ms=1, ttl_ms=10) == "lost"


def test_pruning_works_in_small_steps(records: Records) -> None:
    for number in range(230):
        records.queue.submit(submission(str(number)))
        records.queue.cancel(str(number), now_ms=number)
        records.ledger.keep_plan(KeptPlan(str(number), TableRef("lab", ("db",), "t"), "default", number, "{}"))
    assert records.queue.prune(ended_before_ms=1000, at_most=220) == 220
    assert records.queue.prune(ended_before_ms=1000) == 10
    assert records.ledger.prune_ledger(plans_before_ms=229, audit_before_ms=None) == 229


def test_nothing_remains_of_deleted_jobs(redis_server: RedisServer, records: Records) -> None:
    for number in range(12):
        records.queue.submit(submission(str(number), f"db.t{number % 2}", f"{number % 3}"), key=f"k{number}")
        records.queue.add_event(str(number), 0, "notice", {})
    records.queue.cancel("11", now_ms=1)
    for turn in range(1, 40):
        if claimed := records.queue.claim("w", now_ms=turn, ttl_ms=1000, limits=MANY):
            if turn % 3 == 0:
                records.queue.put_back(claimed.job_id, token(claimed), not_before_ms=turn + 1, reason="later")
            else:
                records.queue.finish(claimed.job_id, token(claimed), JobStatus.SUCCEEDED, now_ms=turn, changes={})
    assert records.queue.prune(ended_before_ms=1000) == 12
    with redis_server.client() as client:
        left = {str(key).removeprefix("tidyberg:") for key in client.scan_iter()}
    left = {key for key in left if not key.startswith("once:")}  # these go by themselves
    assert left == {"last_number", "last_served", "last_token", "served_at", "tenants"}


def test_the_redis_user_of_the_docs_can_keep_jobs_and_touch_nothing_else(redis_server: RedisServer) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    rules = re.search(r"ACL SETUSER tidyberg (on .*)", docs)
    assert rules is not None
    with closing(Redis.from_url(redis_server.url)) as admin:
        send: Callable[..., object] = admin.execute_command
        send("ACL", "SETUSER", "documented", *rules[1].split())
        admin.set("another:key", "1")
    url = redis_server.url.replace(f":{redis_server.password}@", "documented:LONG-PASSWORD@")
    with closing(open_redis(url, "tidyberg:", nobody_knows)) as records:
        for call in CALLS:
            call(records)
        assert records.queue.submission("a") is not None
    assert redis_health(url).version
    with closing(Redis.from_url(url)) as user:
        forbidden_calls: list[Callable[[], object]] = [
            lambda: user.get("another:key"),
            user.flushall,
            lambda: user.config_set("dir", "/"),
        ]
        for forbidden in forbidden_calls:
            with pytest.raises(NoPermissionError):
                forbidden()
