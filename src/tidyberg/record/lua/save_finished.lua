-- Saves the result of a group. ARGV: job id, group, result, then the uuid of the table that the job must have, or ''.
local id, group, result, uuid = unpack(ARGV)
if uuid ~= '' and not holds(uuid, id) then return end
redis.call('HSET', P .. 'finished:' .. id, group, result)
