-- Asks for a look, or postpones one, but not beyond the latest time of the first. ARGV: subject, due_ms, latest_ms.
redis.call('HSETNX', P .. 'looks_latest', ARGV[1], ARGV[3])
local latest = redis.call('HGET', P .. 'looks_latest', ARGV[1])
local due = ARGV[2]
if tonumber(latest) < tonumber(due) then due = latest end
redis.call('ZADD', P .. 'looks', due, ARGV[1])
