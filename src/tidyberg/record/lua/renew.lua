-- Renews the lease of a table. ARGV: table's uuid, job id, when the lease expires.
local key = P .. 'lease:' .. ARGV[1]
if redis.call('HGET', key, 'job_id') ~= ARGV[2] then return 0 end
redis.call('HSET', key, 'expires_ms', ARGV[3])
return 1
