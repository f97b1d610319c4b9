-- Records the progress of a schedule, which never goes back, and returns it. ARGV: schedule id, due_ms.
local due = redis.call('HGET', P .. 'dues', ARGV[1])
if due and tonumber(due) >= tonumber(ARGV[2]) then return due end
redis.call('HSET', P .. 'dues', ARGV[1], ARGV[2])
return ARGV[2]
