-- Deletes entries of the audit log, oldest first. ARGV: from before, how many at most.
local found = redis.call('ZRANGE', P .. 'audit_times', '-inf', '(' .. ARGV[1], 'BYSCORE', 'LIMIT', 0, ARGV[2])
for _, member in ipairs(found) do
  local number, tenant = string.match(member, '^(%d+):(.*)$')
  redis.call('HDEL', P .. 'audit', number)
  redis.call('ZREM', P .. 'audit_numbers', number)
  redis.call('ZREM', P .. 'audit_of:' .. tenant, number)
  redis.call('ZREM', P .. 'audit_times', member)
end
return #found
