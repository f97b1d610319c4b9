-- Ends a running submission. ARGV: job id, token, status, now, then fields.
if answered() then return 1 end
local job = find(ARGV[1])
if not held(job, ARGV[2]) then return 0 end
change(job.key, 5)
finish(job, ARGV[3], ARGV[4])
stop_running(job)
remember('1')
return 1
