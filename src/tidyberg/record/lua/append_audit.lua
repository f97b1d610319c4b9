-- Assigns a number to an entry and saves it. ARGV: tenant, at_ms, document.
local earlier = answered()
if earlier then return earlier end
local number = tostring(redis.call('INCR', P .. 'last_audit'))
redis.call('HSET', P .. 'audit', number, ARGV[3])
redis.call('ZADD', P .. 'audit_numbers', number, number)
redis.call('ZADD', P .. 'audit_of:' .. ARGV[1], number, number)
redis.call('ZADD', P .. 'audit_times', ARGV[2], number .. ':' .. ARGV[1])
return remember(number)
