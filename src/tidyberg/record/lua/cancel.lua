-- Ends a queued submission or asks a running one to stop, and returns it. ARGV: job id, now.
local job = find(ARGV[1])
if not job then return {} end
if job.status == 'queued' then
  finish(job, 'cancelled', ARGV[2])
  stop_waiting(job)
elseif job.status == 'running' then
  redis.call('HSET', job.key, 'cancel_requested', 'true')
end
return redis.call('HGETALL', job.key)
