-- Adds a scan report to the totals of its table, day and shape, and drops the oldest days. Returns 1 for the first
-- report of a table and day.
-- ARGV: table, day, shape, first day to keep, most shapes of a day, shape of the others, milliseconds to keep,
-- then pairs of a total and the number to add.
local kept = answered()
if kept then return kept end
local days = P .. 'scan_days:' .. ARGV[1]
for _, day in ipairs(redis.call('ZRANGEBYSCORE', days, '-inf', '(' .. ARGV[4])) do
  redis.call('DEL', P .. 'scan_reports:' .. day .. ':' .. ARGV[1])
  redis.call('ZREM', days, day)
end
local totals = P .. 'scan_reports:' .. ARGV[2] .. ':' .. ARGV[1]
local first = redis.call('EXISTS', totals) == 0
local shape = ARGV[3]
if redis.call('HEXISTS', totals, 'reports ' .. shape) == 0 then
  local pairs_of_shape = (#ARGV - 7) / 2
  if redis.call('HLEN', totals) / pairs_of_shape >= tonumber(ARGV[5]) then shape = ARGV[6] end
end
for at = 8, #ARGV, 2 do
  redis.call('HINCRBY', totals, ARGV[at] .. ' ' .. shape, ARGV[at + 1])
end
redis.call('ZADD', days, ARGV[2], ARGV[2])
redis.call('PEXPIRE', totals, ARGV[7])
redis.call('PEXPIRE', days, ARGV[7])
return remember(first and '1' or '0')
