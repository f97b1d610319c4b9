-- Deletes a schedule and its progress. ARGV: schedule id.
if answered() then return 1 end
redis.call('HDEL', P .. 'dues', ARGV[1])
if redis.call('HDEL', P .. 'schedules', ARGV[1]) == 0 then return 0 end
remember('1')
return 1
