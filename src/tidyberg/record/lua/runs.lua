-- The shared code of the job store's scripts, which precedes each of them. The keys below the prefix P are
--   run:<id>                     hash: document, table, and its member in the indexes: number, then id
--   runs, runs:<table>           jobs by the time of their creation, then number
--   open_runs, open_runs:<table> running jobs, and those that recovery has to look at
--   settled_runs                 all other jobs, by the time at which they ended
--   lease:<table's uuid>         hash: job_id, owner, expires_ms
--   leases:<id>                  the tables that a job holds
--   paths:<id>, plan:<id>, finished:<id>: the data of a job that recovery needs
local P = KEYS[1]

local function forget(id) redis.call('DEL', P .. 'paths:' .. id, P .. 'plan:' .. id, P .. 'finished:' .. id) end

local function holds(table_uuid, id) return redis.call('HGET', P .. 'lease:' .. table_uuid, 'job_id') == id end

local function drop_lease(table_uuid)
  local holder = redis.call('HGET', P .. 'lease:' .. table_uuid, 'job_id')
  if holder then redis.call('SREM', P .. 'leases:' .. holder, table_uuid) end
  redis.call('DEL', P .. 'lease:' .. table_uuid)
end
