"""Keeps schedules, plans, pauses, wanted looks, scan reports and the audit log in a SQLite file."""

from dataclasses import astuple, replace

from tidyberg.model.scan_reports import MOST_SCAN_SHAPES, OTHER_SHAPES, SCAN_REPORT_DAYS, ScanReportTotals
from tidyberg.model.submission import AuditEntry, KeptPlan, Pause, Schedule
from tidyberg.model.table import TableRef
from tidyberg.record.documents import AUDIT_ENTRY, KEPT_PLAN, PAUSE, SCHEDULE, table_key
from tidyberg.record.sqlite_file import SqliteFile


class SqliteLedger:
    """Implements Ledger."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def save_schedule(self, schedule: Schedule) -> None:
        row = (schedule.schedule_id, SCHEDULE.dump_json(schedule).decode())
        with self._file.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO schedules VALUES (?, ?)", row)

    def schedule(self, schedule_id: str) -> Schedule | None:
        with self._file.reading() as connection:
            row = connection.execute("SELECT document FROM schedules WHERE schedule_id = ?", (schedule_id,)).fetchone()
        return SCHEDULE.validate_json(row[0]) if row else None

    def schedules(self) -> list[Schedule]:
        with self._file.reading() as connection:
            rows = connection.execute("SELECT document FROM schedules ORDER BY schedule_id").fetchall()
        return [SCHEDULE.validate_json(row[0]) for row in rows]

    def delete_schedule(self, schedule_id: str) -> bool:
        with self._file.transaction() as connection:
            connection.execute("DELETE FROM dues WHERE schedule_id = ?", (schedule_id,))
            return connection.execute("DELETE FROM schedules WHERE schedule_id = ?", (schedule_id,)).rowcount == 1

    def last_due(self, schedule_id: str) -> int | None:
        with self._file.reading() as connection:
            row = connection.execute("SELECT due_ms FROM dues WHERE schedule_id = ?", (schedule_id,)).fetchone()
        return int(row[0]) if row else None

    def advance(self, schedule_id: str, due_ms: int) -> int:
        with self._file.transaction() as connection:
            connection.execute(
                "INSERT INTO dues VALUES (?, ?)"
                " ON CONFLICT (schedule_id) DO UPDATE SET due_ms = max(due_ms, excluded.due_ms)",
                (schedule_id, due_ms),
            )
            row = connection.execute("SELECT due_ms FROM dues WHERE schedule_id = ?", (schedule_id,)).fetchone()
        return int(row[0])

    def keep_plan(self, plan: KeptPlan) -> None:
        row = (plan.plan_hash, plan.created_ms, KEPT_PLAN.dump_json(plan).decode())
        with self._file.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO kept_plans VALUES (?, ?, ?)", row)

    def kept_plan(self, plan_hash: str) -> KeptPlan | None:
        with self._file.reading() as connection:
            row = connection.execute("SELECT document FROM kept_plans WHERE plan_hash = ?", (plan_hash,)).fetchone()
        return KEPT_PLAN.validate_json(row[0]) if row else None

    def save_pause(self, pause: Pause) -> None:
        row = (table_key(pause.table), PAUSE.dump_json(pause).decode())
        with self._file.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO pauses VALUES (?, ?)", row)

    def pause(self, table: TableRef) -> Pause | None:
        with self._file.reading() as connection:
            found = connection.execute("SELECT document FROM pauses WHERE iceberg_table = ?", (table_key(table),))
            row = found.fetchone()
        return PAUSE.validate_json(row[0]) if row else None

    def pauses(self) -> list[Pause]:
        with self._file.reading() as connection:
            rows = connection.execute("SELECT document FROM pauses ORDER BY iceberg_table").fetchall()
        return [PAUSE.validate_json(row[0]) for row in rows]

    def delete_pause(self, table: TableRef) -> bool:
        with self._file.transaction() as connection:
            deleted = connection.execute("DELETE FROM pauses WHERE iceberg_table = ?", (table_key(table),))
            return deleted.rowcount == 1

    def has_event(self, event_key: str, *, now_ms: int) -> bool:
        with self._file.reading() as connection:
            found = connection.execute(
                "SELECT 1 FROM events_seen WHERE event_key = ? AND until_ms > ?", (event_key, now_ms)
            )
            return found.fetchone() is not None

    def remember_event(self, event_key: str, *, now_ms: int, until_ms: int) -> None:
        with self._file.transaction() as connection:
            connection.execute("DELETE FROM events_seen WHERE until_ms <= ?", (now_ms,))
            connection.execute("INSERT OR REPLACE INTO events_seen VALUES (?, ?)", (event_key, until_ms))

    def want_look(self, subject: str, *, due_ms: int, latest_ms: int) -> None:
        with self._file.transaction() as connection:
            connection.execute(
                "INSERT INTO looks VALUES (?, ?, ?)"
                " ON CONFLICT (subject) DO UPDATE SET due_ms = min(excluded.due_ms, latest_ms)",
                (subject, due_ms, latest_ms),
            )

    def due_looks(self, now_ms: int, limit: int) -> list[tuple[str, int]]:
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT subject, due_ms FROM looks WHERE due_ms <= ? ORDER BY due_ms, subject LIMIT ?", (now_ms, limit)
            ).fetchall()
        return [(subject, int(due_ms)) for subject, due_ms in rows]

    def drop_look(self, subject: str, due_ms: int) -> bool:
        with self._file.transaction() as connection:
            dropped = connection.execute("DELETE FROM looks WHERE subject = ? AND due_ms = ?", (subject, due_ms))
            return dropped.rowcount == 1

    def add_scan_report(self, table: TableRef, report: ScanReportTotals) -> bool:
        key, numbers = table_key(table), astuple(report)[2:]
        with self._file.transaction() as connection:
            connection.execute("DELETE FROM scan_reports WHERE day <= ?", (report.day - SCAN_REPORT_DAYS,))
            others = connection.execute(
                "SELECT count(*) FROM scan_reports WHERE iceberg_table = ? AND day = ? AND shape <> ?",
                (key, report.day, report.shape),
            ).fetchone()
            known = connection.execute(
                "SELECT 1 FROM scan_reports WHERE iceberg_table = ? AND day = ? AND shape = ?",
                (key, report.day, report.shape),
            ).fetchone()
            shape = report.shape if known or others[0] < MOST_SCAN_SHAPES else OTHER_SHAPES
            connection.execute(
                "INSERT INTO scan_reports VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (iceberg_table, day, shape) DO UPDATE SET reports = reports + excluded.reports,"
                " result_files = result_files + excluded.result_files,"
                " skipped_files = skipped_files + excluded.skipped_files,"
                " result_bytes = result_bytes + excluded.result_bytes,"
                " planning_nanoseconds = planning_nanoseconds + excluded.planning_nanoseconds",
                (key, report.day, shape, *numbers),
            )
        return not known and not others[0]

    def scan_reports(self, table: TableRef) -> list[ScanReportTotals]:
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT day, shape, reports, result_files, skipped_files, result_bytes, planning_nanoseconds"
                " FROM scan_reports WHERE iceberg_table = ? ORDER BY day, shape",
                (table_key(table),),
            ).fetchall()
        return [ScanReportTotals(*row) for row in rows]

    def append_audit(self, entry: AuditEntry) -> AuditEntry:
        with self._file.transaction() as connection:
            number = connection.execute(
                "INSERT INTO audit (tenant, at_ms, document) VALUES (?, ?, ?)",
                (entry.tenant, entry.at_ms, AUDIT_ENTRY.dump_json(entry).decode()),
            ).lastrowid
        assert number is not None, "an insert gives a number"
        return replace(entry, number=number)

    def audit(
        self, *, tenants: frozenset[str] | None = None, before: int | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        conditions, values = ["1 = 1"], list[object]()
        if tenants is not None:
            conditions.append(f"tenant IN ({', '.join('?' for _ in tenants)})")
            values += sorted(tenants)
        if before is not None:
            conditions.append("number < ?")
            values.append(before)
        statement = f"SELECT number, document FROM audit WHERE {' AND '.join(conditions)} ORDER BY number DESC LIMIT ?"  # noqa: S608  # literals
        with self._file.reading() as connection:
            rows = connection.execute(statement, (*values, limit)).fetchall()
        return [replace(AUDIT_ENTRY.validate_json(document), number=number) for number, document in rows]

    def prune_ledger(self, *, plans_before_ms: int, audit_before_ms: int | None) -> int:
        with self._file.transaction() as connection:
            gone = connection.execute("DELETE FROM kept_plans WHERE created_ms < ?", (plans_before_ms,)).rowcount
            if audit_before_ms is not None:
                gone += connection.execute("DELETE FROM audit WHERE at_ms < ?", (audit_before_ms,)).rowcount
        return gone
