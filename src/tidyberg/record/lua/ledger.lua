-- The shared code of the ledger's scripts, which precedes each of them. The keys below the prefix P are
--   schedules, dues     hashes by schedule id: documents; the time up to which each is handled
--   pauses              hash by table: documents
--   looks               sorted set: subjects, by when a look is due; looks_latest: hash by subject
--   event_seen:<key>    the time until which an event is remembered
--   scan_reports:<day>:<table>  hash: "<total> <shape>" -> number; scan_days:<table>: sorted set of days
--   kept_plan:<hash>    a document; kept_plans: their hashes, by the time of their creation
--   audit               hash: number -> document; audit_numbers, audit_of:<tenant>: numbers; audit_times: by time
local P = KEYS[1]
