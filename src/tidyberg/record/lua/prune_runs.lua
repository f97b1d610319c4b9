-- Deletes settled jobs that hold no table, oldest first. ARGV: ended before, how many to read, how many to skip. Returns
-- how many it deleted and how many it read.
local found = redis.call('ZRANGE', P .. 'settled_runs', '-inf', '(' .. ARGV[1], 'BYSCORE', 'LIMIT', ARGV[3], ARGV[2])
local gone = 0
for _, id in ipairs(found) do
  if redis.call('EXISTS', P .. 'leases:' .. id) == 0 then
    local table_id, member = unpack(redis.call('HMGET', P .. 'run:' .. id, 'table', 'member'))
    redis.call('ZREM', P .. 'runs', member)
    redis.call('ZREM', P .. 'runs:' .. table_id, member)
    redis.call('ZREM', P .. 'settled_runs', id)
    redis.call('DEL', P .. 'run:' .. id)
    forget(id)
    gone = gone + 1
  end
end
return {gone, #found}
