-- Forgets what only recovery needed of a job. ARGV: job id.
forget(ARGV[1])
