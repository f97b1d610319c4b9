-- Renews a claim. ARGV: job id, token, when it expires.
local job = find(ARGV[1])
if not held(job, ARGV[2]) then return 'lost' end
redis.call('HSET', job.key, 'expires_ms', ARGV[3])
redis.call('ZADD', P .. 'running', ARGV[3], job.id)
return job.cancel_requested == 'true' and 'cancel' or 'held'
