"""Keeps jobs and leases in Redis, for several replicas of a service."""

from collections.abc import Callable, Collection, Sequence

from tidyberg.model.job import Job, Owner
from tidyberg.model.table import TableRef
from tidyberg.record.documents import JOB, OWNER, kept_result, plan_to_keep, result_to_keep
from tidyberg.record.redis_client import RedisClient
from tidyberg.record.store import Finished

_SCRIPTS = (
    *("save_run", "find_runs", "acquire", "renew", "release", "note_paths"),
    *("save_finished", "withdraw", "forget", "prune_runs"),
)
_PRUNED_AT_ONCE = 100  # Redis answers no other client meanwhile
_SEEN = {True: "alive", False: "dead", None: "unknown"}


class RedisStore:
    """Implements JobStore. `is_alive` checks the process of an owner on this machine."""

    def __init__(self, client: RedisClient, is_alive: Callable[[Owner], bool | None]) -> None:
        self._client = client
        self._is_alive = is_alive
        client.prepare(*_SCRIPTS, after=["runs"])

    def save(self, job: Job, *, holder: str | None = None) -> bool:
        ended = "" if job.finished_ms is None else job.finished_ms
        row = (job.job_id, JOB.dump_json(job).decode(), _table(job.table), job.created_ms)
        return bool(self._client.run("save_run", *row, int(job.is_open), ended, job.table_uuid, holder or ""))

    def get(self, job_id: str) -> Job | None:
        document = self._client.ask(lambda redis: redis.hget(self._client.key(f"run:{job_id}"), "document"))
        return JOB.validate_json(document) if document else None

    def find(self, *, table: TableRef | None = None, unfinished: bool = False, limit: int = 20) -> list[Job]:
        index = "open_runs" if unfinished else "runs"
        documents = self._client.run("find_runs", index if table is None else f"{index}:{_table(table)}", limit)
        return [JOB.validate_json(document) for document in documents]

    def acquire(self, table_uuid: str, job_id: str, owner: Owner, *, now_ms: int, ttl_ms: int) -> str | None:
        mine = OWNER.dump_json(owner).decode()
        looked_at, seen = "", ""
        while True:  # repeat if the holder has changed since its process was checked
            lease = (table_uuid, job_id, mine, now_ms, now_ms + ttl_ms)
            answer, *more = self._client.run("acquire", *lease, looked_at, seen)
            if answer != "look":
                return str(more[0]) if answer == "held" else None
            looked_at = more[0]
            seen = _SEEN[self._is_alive(OWNER.validate_json(looked_at))]

    def renew(self, table_uuid: str, job_id: str, *, now_ms: int, ttl_ms: int) -> bool:
        return bool(self._client.run("renew", table_uuid, job_id, now_ms + ttl_ms))

    def release(self, table_uuid: str, job_id: str) -> None:
        self._client.run("release", table_uuid, job_id)

    def note_paths(self, job_id: str, paths: Sequence[str]) -> None:
        self._client.run("note_paths", job_id, *paths)

    def paths(self, job_id: str) -> list[str]:
        return list(self._client.ask(lambda redis: redis.zrange(self._client.key(f"paths:{job_id}"), 0, -1)))

    def forget_paths(self, job_id: str) -> None:
        self._client.ask(lambda redis: redis.delete(self._client.key(f"paths:{job_id}")))

    def save_plan(self, job_id: str, document: str) -> None:
        key, kept = self._client.key(f"plan:{job_id}"), plan_to_keep(document)
        self._client.ask(lambda redis: redis.delete(key) if kept is None else redis.set(key, kept))

    def plan(self, job_id: str) -> str | None:
        document: str | None = self._client.ask(lambda redis: redis.get(self._client.key(f"plan:{job_id}")))
        return document

    def save_finished(self, job_id: str, finished: Finished, *, table_uuid: str | None = None) -> None:
        result = result_to_keep(finished)
        if result is None:
            return
        kept = f"{finished.finished_ms} {result.decode()}"
        self._client.run("save_finished", job_id, finished.result.group_id, kept, table_uuid or "")

    def finished(self, job_id: str) -> list[Finished]:
        kept = self._client.ask(lambda redis: redis.hgetall(self._client.key(f"finished:{job_id}")))
        found = []
        for group_id in sorted(kept, key=int):
            finished_ms, _, result = kept[group_id].partition(" ")
            found.append(kept_result(result, int(finished_ms)))
        return [finished for finished in found if finished is not None]

    def withdraw(self, table_uuid: str, holder: str, job_id: str, groups: Collection[int] | None = None) -> bool:
        which = "all" if groups is None else "some"
        return bool(self._client.run("withdraw", table_uuid, holder, job_id, which, *(groups or ())))

    def forget(self, job_id: str) -> None:
        self._client.run("forget", job_id)

    def prune(self, *, ended_before_ms: int, at_most: int = 1000) -> int:
        forgotten, kept = 0, 0
        while forgotten < at_most:
            some = min(_PRUNED_AT_ONCE, at_most - forgotten)
            gone, looked_at = self._client.run("prune_runs", ended_before_ms, some, kept)
            forgotten, kept = forgotten + gone, kept + looked_at - gone
            if looked_at < some:
                break
        return forgotten

    def close(self) -> None:
        self._client.close()


def _table(table: TableRef) -> str:
    return f"{table.catalog}:{table}"
