-- Returns the documents of jobs, newest first. ARGV: the index to read, how many.
local found = {}
if tonumber(ARGV[2]) < 1 then return found end
for _, member in ipairs(redis.call('ZRANGE', P .. ARGV[1], 0, ARGV[2] - 1, 'REV')) do
  found[#found + 1] = redis.call('HGET', P .. 'run:' .. string.match(member, ':(.*)$'), 'document')
end
return found
