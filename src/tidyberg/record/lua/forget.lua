-- Deletes the data of a job that only recovery needs. ARGV: job id.
forget(ARGV[1])
