-- Deletes ended submissions and all their data, oldest first. ARGV: ended before, how many at most.
local found = redis.call('ZRANGE', P .. 'ended', '-inf', '(' .. ARGV[1], 'BYSCORE', 'LIMIT', 0, ARGV[2])
for _, id in ipairs(found) do
  local job = find(id)
  leave_indexes(job)
  local name = redis.call('HGET', job.key, 'key')
  if name then redis.call('HDEL', P .. 'keys:' .. job.tenant, name) end
  redis.call('DEL', job.key, P .. 'events:' .. id)
  redis.call('ZREM', P .. 'ended', id)
end
return #found
