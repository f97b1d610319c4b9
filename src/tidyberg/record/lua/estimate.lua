-- Saves an estimate, unless there is one. It replaces a guess, which has no dollars. ARGV: job id, seconds, dollars.
local key = P .. 'job:' .. ARGV[1]
if redis.call('EXISTS', key) == 1 and redis.call('HSETNX', key, 'estimated_dollars', ARGV[3]) == 1 then
  redis.call('HSET', key, 'estimated_seconds', ARGV[2])
end
