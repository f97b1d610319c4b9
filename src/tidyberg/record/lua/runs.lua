-- What the scripts of the job store share: it stands in front of each of them. Below the prefix P there are
--   run:<id>                     hash: document, table, and its member of the indexes: its number, then its id
--   runs, runs:<table>           by the time of their creation, then number
--   open_runs, open_runs:<table> those that run or are for recovery to look at
--   settled_runs                 the others, by the time at which they ended
--   lease:<table's uuid>         hash: job_id, owner, expires_ms
--   leases:<id>                  which tables a job holds
--   paths:<id>, plan:<id>, finished:<id>: what recovery needs of a job
local P = KEYS[1]

local function forget(id) redis.call('DEL', P .. 'paths:' .. id, P .. 'plan:' .. id, P .. 'finished:' .. id) end

local function holds(table_uuid, id) return redis.call('HGET', P .. 'lease:' .. table_uuid, 'job_id') == id end

local function drop_lease(table_uuid)
  local holder = redis.call('HGET', P .. 'lease:' .. table_uuid, 'job_id')
  if holder then redis.call('SREM', P .. 'leases:' .. holder, table_uuid) end
  redis.call('DEL', P .. 'lease:' .. table_uuid)
end
