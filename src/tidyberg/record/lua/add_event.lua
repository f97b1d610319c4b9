-- Appends an event of a job and drops the oldest ones. ARGV: job id, how many to keep, at, kind, data.
local key = P .. 'job:' .. ARGV[1]
if answered() or redis.call('EXISTS', key) == 0 then return end
local id = redis.call('HINCRBY', key, 'last_event', 1) .. '-0'
local at, kind, data = ARGV[3], ARGV[4], ARGV[5]
redis.call('XADD', P .. 'events:' .. ARGV[1], 'MAXLEN', '=', ARGV[2], id, 'at_ms', at, 'kind', kind, 'data', data)
remember('1')
