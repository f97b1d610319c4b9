-- Records the files that a job is about to write, in order. ARGV: job id, then paths.
local key = P .. 'paths:' .. ARGV[1]
for at = 2, #ARGV do redis.call('ZADD', key, 'NX', redis.call('ZCARD', key), ARGV[at]) end
