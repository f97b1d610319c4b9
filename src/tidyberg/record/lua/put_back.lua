-- Queues a running submission again. ARGV: job id, token, not_before_ms, then fields.
if answered() then return 1 end
local job = find(ARGV[1])
if not held(job, ARGV[2]) then return 0 end
change(job.key, 4)
set_status(job, 'queued')
redis.call('ZADD', P .. 'delayed', ARGV[3], job.id)
stop_running(job)
remember('1')
return 1
