-- Saves and queues a submission. Returns the one that is saved under its id or its key, so it can be sent again.
-- ARGV: job id, tenant, table, idempotency key or '', not_before_ms, then fields.
local id, tenant, table_id, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local earlier = name ~= '' and redis.call('HGET', P .. 'keys:' .. tenant, name)
if earlier then return redis.call('HGETALL', P .. 'job:' .. earlier) end
local key = P .. 'job:' .. id
if redis.call('EXISTS', key) == 0 then
  redis.call('HSET', key, 'number', redis.call('INCR', P .. 'last_number'), 'tenant', tenant, 'table_id', table_id)
  change(key, 6)
  if name ~= '' then
    redis.call('HSET', P .. 'keys:' .. tenant, name, id)
    redis.call('HSET', key, 'key', name)
  end
  redis.call('SADD', P .. 'tenants', tenant)
  local job = find(id)
  set_status(job, 'queued')
  if tonumber(ARGV[5]) > 0 then
    redis.call('ZADD', P .. 'delayed', ARGV[5], id)
  else
    start_waiting(job)
  end
end
return redis.call('HGETALL', key)
