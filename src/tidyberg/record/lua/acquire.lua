-- Takes the lease of a table. ARGV: table's uuid, job id, owner, now, when the lease expires, then an owner that the
-- caller has checked and its state: 'alive', 'dead' or 'unknown'. Returns 'taken', or 'held' and the holder, or 'look' and
-- the owner that the caller must check first, because only the machine of a process can see whether it is alive.
local uuid, id, owner, now, expires, looked_at, seen = unpack(ARGV)
local key = P .. 'lease:' .. uuid
local holder, held_by, until_ms = unpack(redis.call('HMGET', key, 'job_id', 'owner', 'expires_ms'))
if holder and holder ~= id then
  if held_by ~= looked_at then return {'look', held_by} end
  if seen ~= 'dead' and tonumber(until_ms) > tonumber(now) then return {'held', holder} end
end
drop_lease(uuid)
redis.call('HSET', key, 'job_id', id, 'owner', owner, 'expires_ms', expires)
redis.call('SADD', P .. 'leases:' .. id, uuid)
return {'taken'}
