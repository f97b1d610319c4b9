-- Forgets a look that is still due at this time, and returns 1 if it did. ARGV: subject, due_ms.
local kept = answered()
if kept then return kept end
local due = redis.call('ZSCORE', P .. 'looks', ARGV[1])
if not due or tonumber(due) ~= tonumber(ARGV[2]) then return remember('0') end
redis.call('ZREM', P .. 'looks', ARGV[1])
redis.call('HDEL', P .. 'looks_latest', ARGV[1])
return remember('1')
