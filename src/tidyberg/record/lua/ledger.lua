-- What the scripts of the ledger share: it stands in front of each of them. Below the prefix P there are
--   schedules, dues     hashes by schedule id: documents; up to when their times are dealt with
--   pauses              hash by table: documents
--   kept_plan:<hash>    a document; kept_plans: their hashes, by the time of their creation
--   audit               hash: number -> document; audit_numbers, audit_of:<tenant>: numbers; audit_times: by time
local P = KEYS[1]
