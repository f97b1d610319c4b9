"""The job store: jobs, leases, the queue, schedules and the audit log, in SQLite or Redis."""
