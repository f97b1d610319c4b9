-- Changes fields of a running submission. ARGV: job id, token, then fields.
local job = find(ARGV[1])
if not held(job, ARGV[2]) then return 0 end
change(job.key, 3)
return 1
