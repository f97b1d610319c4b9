-- The shared code of the queue's scripts, which precedes each of them. The keys below the prefix P are
--   job:<id>                  hash: the fields of a submission, and its number in the order of arrival
--   waiting:<tenant>:<table>  queued submissions that may run now, by priority, then number
--   waiting_for:<table>       tenants with submissions that wait for it
--   ready:<tenant>            the first waiting submission of each idle table, by priority, then number
--   heads:<tenant>            hash: table -> that submission
--   tenants_ready             tenants with ready submissions: fewest running first, then served longest ago
--   delayed                   queued submissions, by the time before which they must not run
--   running                   running submissions, by the time at which their claim expires
--   busy                      hash: table -> the job that runs on it
--   ended                     ended submissions, by the time at which they ended
--   all:<status>, of_tenant:<tenant>:<status>, of_table:<table>:<status>: submissions by number, for pages and counts
local P = KEYS[1]
local SHIFT = 2 ^ 40  -- two numbers in a score, which is exact up to 2^53

local function pair(first, second)
  return #first .. ':' .. first .. ':' .. second  -- the length keeps two pairs from looking alike
end

local function find(id)
  local names = {'number', 'status', 'tenant', 'table_id', 'priority', 'token', 'cancel_requested'}
  local values = redis.call('HMGET', P .. 'job:' .. id, unpack(names))
  if not values[1] then return nil end
  local job = {id = id, key = P .. 'job:' .. id}
  for at, name in ipairs(names) do job[name] = values[at] end
  job.waiting = P .. 'waiting:' .. pair(job.tenant, job.table_id)
  return job
end

local function held(job, token)
  return job and job.status == 'running' and job.token == token
end

local function of_tenant(tenant, status) return P .. 'of_tenant:' .. pair(tenant, status) end

local function indexes(job, status)
  return {P .. 'all:' .. status, of_tenant(job.tenant, status), P .. 'of_table:' .. pair(job.table_id, status)}
end

local function leave_indexes(job)
  for _, index in ipairs(indexes(job, job.status)) do redis.call('ZREM', index, job.id) end
end

local function set_status(job, status)
  if job.status then leave_indexes(job) end
  for _, index in ipairs(indexes(job, status)) do redis.call('ZADD', index, job.number, job.id) end
  redis.call('HSET', job.key, 'status', status)
  job.status = status
end

local function rank_tenant(tenant)
  if redis.call('EXISTS', P .. 'ready:' .. tenant) == 0 then
    redis.call('ZREM', P .. 'tenants_ready', tenant)
    return
  end
  local running = redis.call('ZCARD', of_tenant(tenant, 'running'))
  local served = redis.call('HGET', P .. 'served_at', tenant) or 0
  redis.call('ZADD', P .. 'tenants_ready', string.format('%.0f', running * SHIFT + served), tenant)
end

-- Updates ready:<tenant> after its waiting submissions or the state of the table have changed.
local function refresh(tenant, table_id)
  local ready, heads = P .. 'ready:' .. tenant, P .. 'heads:' .. tenant
  local before = redis.call('HGET', heads, table_id)
  if before then
    redis.call('ZREM', ready, before)
    redis.call('HDEL', heads, table_id)
  end
  local first = redis.call('ZRANGE', P .. 'waiting:' .. pair(tenant, table_id), 0, 0, 'WITHSCORES')
  if first[1] and redis.call('HEXISTS', P .. 'busy', table_id) == 0 then
    redis.call('ZADD', ready, first[2], first[1])
    redis.call('HSET', heads, table_id, first[1])
  end
  rank_tenant(tenant)
end

local function refresh_table(table_id)
  for _, tenant in ipairs(redis.call('SMEMBERS', P .. 'waiting_for:' .. table_id)) do refresh(tenant, table_id) end
end

local function start_waiting(job)
  redis.call('ZADD', job.waiting, string.format('%.0f', job.number - job.priority * SHIFT), job.id)
  redis.call('SADD', P .. 'waiting_for:' .. job.table_id, job.tenant)
  refresh(job.tenant, job.table_id)
end

local function stop_waiting(job)
  redis.call('ZREM', P .. 'delayed', job.id)
  redis.call('ZREM', job.waiting, job.id)
  if redis.call('EXISTS', job.waiting) == 0 then
    redis.call('SREM', P .. 'waiting_for:' .. job.table_id, job.tenant)
  end
  refresh(job.tenant, job.table_id)
end

-- Releases the claim and the table of a submission whose status has already changed.
local function stop_running(job)
  redis.call('ZREM', P .. 'running', job.id)
  redis.call('HDEL', job.key, 'worker', 'expires_ms')
  if redis.call('HGET', P .. 'busy', job.table_id) == job.id then
    redis.call('HDEL', P .. 'busy', job.table_id)
  end
  refresh_table(job.table_id)
  rank_tenant(job.tenant)
end

-- Changes come as name, value, name, value from ARGV[first] on.
local function change(key, first)
  for at = first, #ARGV, 2 do
    if ARGV[at + 1] == 'null' then
      redis.call('HDEL', key, ARGV[at])
    else
      redis.call('HSET', key, ARGV[at], ARGV[at + 1])
    end
  end
end

local function finish(job, status, now)
  set_status(job, status)
  redis.call('HSET', job.key, 'finished_ms', now)
  redis.call('ZADD', P .. 'ended', now, job.id)
end
