"""The tables of the SQLite file, by version. A released version is never edited. Changes need a new version."""

# Files without a version number have these tables already.
_RUNS = (
    """
    CREATE TABLE IF NOT EXISTS jobs (
        job_id TEXT PRIMARY KEY,
        catalog TEXT NOT NULL,
        identifier TEXT NOT NULL,
        status TEXT NOT NULL,
        unresolved INTEGER NOT NULL,
        created_ms INTEGER NOT NULL,
        document TEXT NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS jobs_by_table ON jobs (catalog, identifier, created_ms)",
    "CREATE INDEX IF NOT EXISTS jobs_by_time ON jobs (created_ms)",
    """
    CREATE TABLE IF NOT EXISTS leases (
        table_uuid TEXT PRIMARY KEY,
        job_id TEXT NOT NULL,
        owner TEXT NOT NULL,
        expires_ms INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS written (
        job_id TEXT NOT NULL,
        path TEXT NOT NULL,
        PRIMARY KEY (job_id, path)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS plans (
        job_id TEXT PRIMARY KEY,
        document TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS finished (
        job_id TEXT NOT NULL,
        group_id INTEGER NOT NULL,
        finished_ms INTEGER NOT NULL,
        result BLOB NOT NULL,
        PRIMARY KEY (job_id, group_id)
    )
    """,
)

_OPEN_RUNS = ("CREATE INDEX jobs_open ON jobs (created_ms) WHERE (status = 'running' OR unresolved = 1)",)

# A lane holds the waiting submissions of one tenant for one table. Its head, which runs first, is marked, so a claim
# reads only heads, however many submissions wait behind them.
_QUEUE = (
    """
    CREATE TABLE submissions (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        job_id TEXT NOT NULL UNIQUE,
        tenant TEXT NOT NULL,
        iceberg_table TEXT NOT NULL,
        priority INTEGER NOT NULL,
        status TEXT NOT NULL,
        is_waiting INTEGER NOT NULL,
        is_head INTEGER NOT NULL DEFAULT 0,
        not_before_ms INTEGER NOT NULL,
        expires_ms INTEGER,
        created_by TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        finished_ms INTEGER,
        document TEXT NOT NULL
    )
    """,
    "CREATE INDEX submissions_by_tenant ON submissions (tenant, number)",
    "CREATE INDEX submissions_by_status ON submissions (status, number)",
    "CREATE INDEX submissions_by_table ON submissions (iceberg_table, number)",
    "CREATE INDEX submissions_by_end ON submissions (finished_ms) WHERE finished_ms IS NOT NULL",
    "CREATE INDEX lanes ON submissions (tenant, iceberg_table, priority DESC, number) WHERE is_waiting = 1",
    "CREATE UNIQUE INDEX one_head_a_lane ON submissions (tenant, iceberg_table) WHERE is_head = 1",
    "CREATE INDEX heads ON submissions (tenant, priority DESC, number) WHERE is_head = 1",
    "CREATE INDEX put_off ON submissions (not_before_ms) WHERE status = 'queued' AND is_waiting = 0",
    "CREATE UNIQUE INDEX one_running_a_table ON submissions (iceberg_table) WHERE status = 'running'",
    "CREATE INDEX claims ON submissions (expires_ms) WHERE status = 'running'",
    """
    CREATE TABLE counts (
        tenant TEXT NOT NULL,
        status TEXT NOT NULL,
        submissions INTEGER NOT NULL,
        PRIMARY KEY (tenant, status)
    ) WITHOUT ROWID
    """,
    """
    CREATE TRIGGER count_new AFTER INSERT ON submissions BEGIN
        INSERT INTO counts VALUES (new.tenant, new.status, 1)
            ON CONFLICT (tenant, status) DO UPDATE SET submissions = submissions + 1;
    END
    """,
    """
    CREATE TRIGGER count_moved AFTER UPDATE OF status ON submissions WHEN old.status <> new.status BEGIN
        UPDATE counts SET submissions = submissions - 1 WHERE tenant = old.tenant AND status = old.status;
        INSERT INTO counts VALUES (new.tenant, new.status, 1)
            ON CONFLICT (tenant, status) DO UPDATE SET submissions = submissions + 1;
    END
    """,
    """
    CREATE TRIGGER count_gone AFTER DELETE ON submissions BEGIN
        UPDATE counts SET submissions = submissions - 1 WHERE tenant = old.tenant AND status = old.status;
    END
    """,
    "CREATE TABLE served (tenant TEXT PRIMARY KEY, token INTEGER NOT NULL)",
    "CREATE INDEX served_by_token ON served (token)",
    """
    CREATE TABLE idempotency_keys (
        tenant TEXT NOT NULL,
        key TEXT NOT NULL,
        job_id TEXT NOT NULL,
        PRIMARY KEY (tenant, key)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX idempotency_keys_by_job ON idempotency_keys (job_id)",
    """
    CREATE TABLE events (
        job_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        document TEXT NOT NULL,
        PRIMARY KEY (job_id, number)
    ) WITHOUT ROWID
    """,
)

_LEDGER = (
    "CREATE TABLE schedules (schedule_id TEXT PRIMARY KEY, document TEXT NOT NULL)",
    "CREATE TABLE dues (schedule_id TEXT PRIMARY KEY, due_ms INTEGER NOT NULL)",
    "CREATE TABLE kept_plans (plan_hash TEXT PRIMARY KEY, created_ms INTEGER NOT NULL, document TEXT NOT NULL)",
    "CREATE INDEX kept_plans_by_time ON kept_plans (created_ms)",
    """
    CREATE TABLE audit (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        tenant TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        document TEXT NOT NULL
    )
    """,
    "CREATE INDEX audit_by_tenant ON audit (tenant, number)",
    "CREATE INDEX audit_by_time ON audit (at_ms)",
)

_PAUSES = ("CREATE TABLE pauses (iceberg_table TEXT PRIMARY KEY, document TEXT NOT NULL)",)

_LOOKS = (
    "CREATE TABLE looks (subject TEXT PRIMARY KEY, due_ms INTEGER NOT NULL, latest_ms INTEGER NOT NULL)",
    "CREATE INDEX looks_by_time ON looks (due_ms)",
    "CREATE TABLE events_seen (event_key TEXT PRIMARY KEY, until_ms INTEGER NOT NULL)",
    "CREATE INDEX events_seen_by_time ON events_seen (until_ms)",
)

_SCAN_REPORTS = (
    """
    CREATE TABLE scan_reports (
        iceberg_table TEXT NOT NULL,
        day INTEGER NOT NULL,
        shape TEXT NOT NULL,
        reports INTEGER NOT NULL,
        result_files INTEGER NOT NULL,
        skipped_files INTEGER NOT NULL,
        result_bytes INTEGER NOT NULL,
        planning_nanoseconds INTEGER NOT NULL,
        PRIMARY KEY (iceberg_table, day, shape)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX scan_reports_by_day ON scan_reports (day)",
)

VERSIONS = (_RUNS, (*_OPEN_RUNS, *_QUEUE, *_LEDGER), _PAUSES, _LOOKS, _SCAN_REPORTS)
