-- Ends a queued submission, asks a running one to stop; gives what is kept. ARGV: job id, now.
local job = find(ARGV[1])
if not job then return {} end
if job.status == 'queued' then
  finish(job, 'cancelled', ARGV[2])
  stop_waiting(job)
elseif job.status == 'running' then
  redis.call('HSET', job.key, 'cancel_requested', 'true')
end
return redis.call('HGETALL', job.key)
