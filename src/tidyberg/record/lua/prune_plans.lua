-- Deletes kept plans, oldest first. ARGV: created before, how many at most.
local found = redis.call('ZRANGE', P .. 'kept_plans', '-inf', '(' .. ARGV[1], 'BYSCORE', 'LIMIT', 0, ARGV[2])
for _, hash in ipairs(found) do
  redis.call('DEL', P .. 'kept_plan:' .. hash)
  redis.call('ZREM', P .. 'kept_plans', hash)
end
return #found
