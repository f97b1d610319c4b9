-- Forgets finished groups while the holder has the table. ARGV: table's uuid, holder, job id, 'all' or 'some', groups.
if not holds(ARGV[1], ARGV[2]) then return 0 end
local key = P .. 'finished:' .. ARGV[3]
if ARGV[4] == 'all' then redis.call('DEL', key) end
for at = 5, #ARGV do redis.call('HDEL', key, ARGV[at]) end
return 1
