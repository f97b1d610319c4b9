-- Releases the lease of a table, if the job has it. ARGV: table's uuid, job id.
if redis.call('HGET', P .. 'lease:' .. ARGV[1], 'job_id') == ARGV[2] then drop_lease(ARGV[1]) end
