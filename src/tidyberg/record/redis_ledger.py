"""Keeps schedules, plans, pauses, wanted looks, scan reports and the audit log in Redis."""

from dataclasses import replace
from functools import partial

from pydantic import TypeAdapter
from redis import Redis

from tidyberg.model.scan_reports import MOST_SCAN_SHAPES, OTHER_SHAPES, SCAN_REPORT_DAYS, ScanReportTotals
from tidyberg.model.submission import AuditEntry, KeptPlan, Pause, Schedule
from tidyberg.model.table import TableRef
from tidyberg.record.documents import PAUSE, table_key
from tidyberg.record.redis_client import RedisClient

_SCHEDULE = TypeAdapter(Schedule)
_PLAN = TypeAdapter(KeptPlan)
_ENTRY = TypeAdapter(AuditEntry)

_AS_THEY_ARE = ("advance", "keep_plan", "want_look", "read_audit", "prune_plans", "prune_audit")
_ONCE = ("delete_schedule", "append_audit", "drop_look", "add_scan_report")
_TOTALS = ("reports", "result_files", "skipped_files", "result_bytes", "planning_nanoseconds")
_DAY_MS = 86_400_000
_PRUNED_AT_ONCE = 500  # Redis answers no other client meanwhile


class RedisLedger:
    """Implements Ledger."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        client.prepare(*_AS_THEY_ARE, after=["ledger"])
        client.prepare(*_ONCE, after=["ledger", "once"])

    def save_schedule(self, schedule: Schedule) -> None:
        document = _SCHEDULE.dump_json(schedule).decode()
        self._client.ask(lambda redis: redis.hset(self._client.key("schedules"), schedule.schedule_id, document))

    def schedule(self, schedule_id: str) -> Schedule | None:
        document = self._client.ask(lambda redis: redis.hget(self._client.key("schedules"), schedule_id))
        return _SCHEDULE.validate_json(document) if document else None

    def schedules(self) -> list[Schedule]:
        documents = self._client.ask(lambda redis: redis.hgetall(self._client.key("schedules")))
        return [_SCHEDULE.validate_json(documents[schedule_id]) for schedule_id in sorted(documents)]

    def delete_schedule(self, schedule_id: str) -> bool:
        return bool(self._client.run("delete_schedule", schedule_id, once=True))

    def last_due(self, schedule_id: str) -> int | None:
        due = self._client.ask(lambda redis: redis.hget(self._client.key("dues"), schedule_id))
        return None if due is None else int(due)

    def advance(self, schedule_id: str, due_ms: int) -> int:
        return int(self._client.run("advance", schedule_id, due_ms))

    def keep_plan(self, plan: KeptPlan) -> None:
        self._client.run("keep_plan", plan.plan_hash, plan.created_ms, _PLAN.dump_json(plan).decode())

    def kept_plan(self, plan_hash: str) -> KeptPlan | None:
        document = self._client.ask(lambda redis: redis.get(self._client.key(f"kept_plan:{plan_hash}")))
        return _PLAN.validate_json(document) if document else None

    def save_pause(self, pause: Pause) -> None:
        document = PAUSE.dump_json(pause).decode()
        self._client.ask(lambda redis: redis.hset(self._client.key("pauses"), table_key(pause.table), document))

    def pause(self, table: TableRef) -> Pause | None:
        document = self._client.ask(lambda redis: redis.hget(self._client.key("pauses"), table_key(table)))
        return PAUSE.validate_json(document) if document else None

    def pauses(self) -> list[Pause]:
        documents = self._client.ask(lambda redis: redis.hgetall(self._client.key("pauses")))
        return [PAUSE.validate_json(documents[table]) for table in sorted(documents)]

    def delete_pause(self, table: TableRef) -> bool:
        return bool(self._client.ask(lambda redis: redis.hdel(self._client.key("pauses"), table_key(table))))

    def has_event(self, event_key: str, *, now_ms: int) -> bool:
        until = self._client.ask(lambda redis: redis.get(self._client.key(f"event_seen:{event_key}")))
        return until is not None and int(until) > now_ms

    def remember_event(self, event_key: str, *, now_ms: int, until_ms: int) -> None:
        key, lasts_ms = self._client.key(f"event_seen:{event_key}"), max(1, until_ms - now_ms)
        self._client.ask(lambda redis: redis.set(key, until_ms, px=lasts_ms))

    def want_look(self, subject: str, *, due_ms: int, latest_ms: int) -> None:
        self._client.run("want_look", subject, due_ms, latest_ms)

    def due_looks(self, now_ms: int, limit: int) -> list[tuple[str, int]]:
        key = self._client.key("looks")
        found = self._client.ask(
            lambda redis: redis.zrangebyscore(key, "-inf", now_ms, start=0, num=limit, withscores=True)
        )
        return [(subject, int(due_ms)) for subject, due_ms in found]

    def drop_look(self, subject: str, due_ms: int) -> bool:
        return bool(int(self._client.run("drop_look", subject, due_ms, once=True)))

    def add_scan_report(self, table: TableRef, report: ScanReportTotals) -> bool:
        first = report.day - SCAN_REPORT_DAYS + 1
        totals = [part for name in _TOTALS for part in (name, getattr(report, name))]
        keep = (first, MOST_SCAN_SHAPES, OTHER_SHAPES, (SCAN_REPORT_DAYS + 1) * _DAY_MS)
        arguments = (table_key(table), report.day, report.shape, *keep, *totals)
        return bool(int(self._client.run("add_scan_report", *arguments, once=True)))

    def scan_reports(self, table: TableRef) -> list[ScanReportTotals]:
        key, client = table_key(table), self._client
        found: list[ScanReportTotals] = []
        for day in client.ask(lambda redis: redis.zrange(client.key(f"scan_days:{key}"), 0, -1)):
            name = client.key(f"scan_reports:{day}:{key}")
            totals: dict[str, dict[str, int]] = {}
            for field, number in client.ask(partial(Redis.hgetall, name=name)).items():
                total, _, shape = field.partition(" ")
                totals.setdefault(shape, {})[total] = int(number)
            found += [ScanReportTotals(int(day), shape, **totals[shape]) for shape in sorted(totals)]
        return found

    def append_audit(self, entry: AuditEntry) -> AuditEntry:
        document = _ENTRY.dump_json(entry).decode()
        return replace(
            entry, number=int(self._client.run("append_audit", entry.tenant, entry.at_ms, document, once=True))
        )

    def audit(
        self, *, tenants: frozenset[str] | None = None, before: int | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        indexes = ["audit_numbers"] if tenants is None else [f"audit_of:{tenant}" for tenant in sorted(tenants)]
        flat = self._client.run("read_audit", "" if before is None else before, limit, *indexes)
        rows = zip(flat[::2], flat[1::2], strict=True)
        return [replace(_ENTRY.validate_json(document), number=int(number)) for number, document in rows]

    def prune_ledger(self, *, plans_before_ms: int, audit_before_ms: int | None) -> int:
        gone = self._prune("prune_plans", plans_before_ms)
        return gone if audit_before_ms is None else gone + self._prune("prune_audit", audit_before_ms)

    def _prune(self, script: str, before_ms: int) -> int:
        forgotten = 0
        while gone := self._client.run(script, before_ms, _PRUNED_AT_ONCE):
            forgotten += gone
        return forgotten
