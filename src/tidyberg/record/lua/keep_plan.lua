-- Saves a plan. ARGV: hash, created_ms, document.
redis.call('SET', P .. 'kept_plan:' .. ARGV[1], ARGV[3])
redis.call('ZADD', P .. 'kept_plans', ARGV[2], ARGV[1])
