"""Keeps the queue of submissions in Redis. Every change is a script, so it is atomic."""

from collections.abc import Mapping
from typing import Any, Literal

from redis import Redis

from tidyberg.model.job import JobStatus
from tidyberg.model.submission import JobEvent, JobNews, Limits, Query, Submission, SubmissionPage
from tidyberg.record import changes as change
from tidyberg.record.redis_client import RedisClient
from tidyberg.record.redis_fields import ANY, event_of, fields_of, json_text, submission_of, table_id

_AS_THEY_ARE = ("submit", "beat", "update", "cancel", "estimate", "page", "counts", "prune")
_ONCE = ("claim", "finish", "put_back", "add_event")
# Redis answers no other client while a script runs.
_LOOKED_AT_ONCE = 1000
_PRUNED_AT_ONCE = 100


class RedisQueue:
    """Implements JobQueue."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        client.prepare(*_AS_THEY_ARE, after=["queue"])
        client.prepare(*_ONCE, after=["queue", "once"])

    def submit(self, submission: Submission, *, key: str | None = None) -> Submission:
        who = (submission.job_id, submission.tenant, table_id(submission.table))
        # The prefix distinguishes an empty key from no key.
        name = "" if key is None else f"k{key}"
        kept = submission_of(self._client.run("submit", *who, name, submission.not_before_ms, *fields_of(submission)))
        assert kept is not None, "it was kept just now, or before"
        if key is not None and kept.job_id != submission.job_id:
            change.check_same_request(kept, submission, key)
        return kept

    def submission(self, job_id: str) -> Submission | None:
        return submission_of(self._client.ask(lambda redis: redis.hgetall(self._client.key(f"job:{job_id}"))))

    def submissions(self, query: Query) -> SubmissionPage:
        order = "newest" if query.newest_first else "oldest"
        after = "" if query.cursor is None else str(change.position(query.cursor))
        created_by = "" if query.created_by is None else json_text(query.created_by)
        tenants = sorted(query.tenants or ()) if query.table is not None else []
        created_from = "" if query.created_from_ms is None else str(query.created_from_ms)
        found: list[tuple[int, Submission]] = []
        more = True
        while more and len(found) <= query.limit:  # one more than a page shows whether there is a next page
            wanted = query.limit + 1 - len(found)
            looked_at = max(_LOOKED_AT_ONCE, wanted) if created_by or created_from or tenants else wanted
            how = (order, after, wanted, looked_at, created_by, created_from, len(tenants))
            after, *rows = self._client.run("page", *how, *tenants, *_indexes(query))
            found += [(_number(row), submission) for row in rows if (submission := submission_of(row))]
            more = after != ""
        page = found[: query.limit]
        return SubmissionPage(
            tuple(submission for _, submission in page), str(page[-1][0]) if page and len(found) > len(page) else None
        )

    def counts(self) -> Mapping[tuple[str, JobStatus], int]:
        flat = self._client.run("counts", *JobStatus)
        rows = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        return {(tenant, JobStatus(status)): int(number) for tenant, status, number in rows}

    def claim(self, worker: str, *, now_ms: int, ttl_ms: int, limits: Limits) -> Submission | None:
        own = [part for tenant in limits.of_tenant for part in (tenant, limits.for_tenant(tenant))]
        others = limits.running if limits.running_per_tenant is None else limits.running_per_tenant
        how = (worker, now_ms, now_ms + ttl_ms, limits.running, others)
        return submission_of(self._client.run("claim", *how, *own, once=True))

    def beat(self, job_id: str, token: int, *, now_ms: int, ttl_ms: int) -> Literal["held", "cancel", "lost"]:
        answer: Literal["held", "cancel", "lost"] = self._client.run("beat", job_id, token, now_ms + ttl_ms)
        return answer

    def update(self, job_id: str, token: int, changes: Mapping[str, Any]) -> bool:
        return bool(self._client.run("update", job_id, token, *_learned(changes)))

    def finish(self, job_id: str, token: int, status: JobStatus, *, now_ms: int, changes: Mapping[str, Any]) -> bool:
        change.ended(ANY, status, now_ms)
        return bool(self._client.run("finish", job_id, token, status, now_ms, *_learned(changes), once=True))

    def put_back(
        self, job_id: str, token: int, *, not_before_ms: int, reason: str, attempts: int | None = None
    ) -> bool:
        names = ("not_before_ms", "error") if attempts is None else ("not_before_ms", "error", "attempts")
        fields = fields_of(change.put_back(ANY, not_before_ms, reason, attempts=attempts), names)
        return bool(self._client.run("put_back", job_id, token, not_before_ms, *fields, once=True))

    def cancel(self, job_id: str, *, now_ms: int) -> Submission | None:
        return submission_of(self._client.run("cancel", job_id, now_ms))

    def estimate(self, job_id: str, *, seconds: float, dollars: float) -> None:
        self._client.run("estimate", job_id, json_text(seconds), json_text(dollars))

    def add_event(self, job_id: str, at_ms: int, kind: str, data: Mapping[str, Any]) -> None:
        self._client.run("add_event", job_id, change.KEPT_EVENTS, at_ms, kind, json_text(data), once=True)

    def events(self, job_id: str, *, after: int = 0, limit: int = 100) -> list[JobEvent]:
        if limit < 1:
            return []
        key, start = self._client.key(f"events:{job_id}"), f"{max(after, 0) + 1}-0"
        return [event_of(*row) for row in self._client.ask(lambda redis: redis.xrange(key, start, "+", count=limit))]

    def news(self, after: Mapping[str, int], *, limit: int = 100) -> Mapping[str, JobNews]:
        key = self._client.key

        def look(redis: Redis) -> list[Any]:
            with redis.pipeline(transaction=False) as pipeline:
                for job_id, number in after.items():
                    pipeline.hget(key(f"job:{job_id}"), "status")
                    pipeline.xrange(key(f"events:{job_id}"), f"{max(number, 0) + 1}-0", "+", count=limit)
                return pipeline.execute()

        found = self._client.ask(look) if after else []
        return {
            job_id: JobNews(JobStatus(status), tuple(event_of(*row) for row in rows))
            for job_id, status, rows in zip(after, found[::2], found[1::2], strict=True)
            if status is not None
        }

    def prune(self, *, ended_before_ms: int, at_most: int = 1000) -> int:
        forgotten = 0
        while forgotten < at_most:
            some = min(_PRUNED_AT_ONCE, at_most - forgotten)
            gone = self._client.run("prune", ended_before_ms, some)
            forgotten += gone
            if gone < some:
                break
        return forgotten


def _learned(changes: Mapping[str, Any]) -> list[str]:
    return fields_of(change.learned(ANY, changes), changes)


def _number(row: list[str]) -> int:
    return int(row[row[::2].index("number") * 2 + 1])


def _indexes(query: Query) -> list[str]:
    """Return the smallest indexes that contain all matches, each with one status."""
    statuses = sorted(JobStatus if query.statuses is None else query.statuses)
    if query.table is not None and query.tenants != frozenset():
        return [f"of_table:{_pair(table_id(query.table), status)}" for status in statuses]
    if query.tenants is not None:
        return [f"of_tenant:{_pair(tenant, status)}" for tenant in sorted(query.tenants) for status in statuses]
    return [f"all:{status}" for status in statuses]


def _pair(first: str, second: str) -> str:
    """Format a pair as lua/queue.lua does, with lengths in bytes."""
    return f"{len(first.encode())}:{first}:{second}"
