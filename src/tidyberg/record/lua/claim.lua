-- Gives the next submission to a worker. ARGV: worker, now, when the claim expires, how many may run, how many may run
-- per tenant, then tenant and number for tenants that have their own limit.
local worker, now, expires, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

-- Tokens also follow the clock: a replica that became master may have missed the last ones, and none may repeat.
local function next_token()
  local clock = redis.call('TIME')
  local token = math.max((redis.call('GET', P .. 'last_token') or 0) + 1, clock[1] * 1000000 + clock[2])
  token = string.format('%.0f', token)
  redis.call('SET', P .. 'last_token', token)
  return token
end

local function give(job, attempts)
  local token = next_token()
  redis.call('HSET', job.key, 'worker', worker, 'token', token, 'expires_ms', expires)
  redis.call('HSETNX', job.key, 'started_ms', now)
  redis.call('HINCRBY', job.key, 'attempts', attempts)
  redis.call('HDEL', job.key, 'error', 'error_code')
  redis.call('ZADD', P .. 'running', expires, job.id)
  redis.call('HSET', P .. 'served_at', job.tenant, redis.call('INCR', P .. 'last_served'))
  rank_tenant(job.tenant)
  remember(token .. ':' .. job.id)
  return redis.call('HGETALL', job.key)
end

local function next_tenant()
  local own = {}
  for at = 6, #ARGV, 2 do own[ARGV[at]] = tonumber(ARGV[at + 1]) end
  local at = 0
  while true do
    local some = redis.call('ZRANGE', P .. 'tenants_ready', at, at + 31)
    if #some == 0 then return nil end
    for _, tenant in ipairs(some) do
      local running = redis.call('ZCARD', of_tenant(tenant, 'running'))
      if running < (own[tenant] or tonumber(ARGV[5])) then return tenant end
    end
    at = at + #some
  end
end

local earlier = answered()
if earlier then
  local token, id = string.match(earlier, '^(%d+):(.*)$')
  local job = find(id)
  if held(job, token) then return redis.call('HGETALL', job.key) end
end

local left = redis.call('ZRANGE', P .. 'running', '-inf', now, 'BYSCORE', 'LIMIT', 0, 1)
if left[1] then return give(find(left[1]), 0) end  -- its worker is gone, which is no fault of the job's

if redis.call('ZCARD', P .. 'running') >= most then return nil end
for _, id in ipairs(redis.call('ZRANGE', P .. 'delayed', '-inf', now, 'BYSCORE')) do
  redis.call('ZREM', P .. 'delayed', id)
  start_waiting(find(id))
end
local tenant = next_tenant()
if not tenant then return nil end
local job = find(redis.call('ZRANGE', P .. 'ready:' .. tenant, 0, 0)[1])
redis.call('HSET', P .. 'busy', job.table_id, job.id)
set_status(job, 'running')
stop_waiting(job)
refresh_table(job.table_id)
return give(job, 1)
