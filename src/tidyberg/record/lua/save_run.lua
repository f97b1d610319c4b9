-- Inserts a job or replaces it. ARGV: job id, document, table, created_ms, '1' while it is open, finished_ms or '', the
-- table's uuid, the required holder or ''.
local id, document, table_id, created, open, ended, uuid, holder = unpack(ARGV)
if holder ~= '' and not holds(uuid, holder) then return 0 end
local key = P .. 'run:' .. id
local member = redis.call('HGET', key, 'member')
if not member then member = string.format('%012.0f:', redis.call('INCR', P .. 'last_run')) .. id end
redis.call('HSET', key, 'document', document, 'table', table_id, 'member', member)
redis.call('ZADD', P .. 'runs', created, member)
redis.call('ZADD', P .. 'runs:' .. table_id, created, member)
for _, index in ipairs({'open_runs', 'open_runs:' .. table_id}) do
  if open == '1' then
    redis.call('ZADD', P .. index, created, member)
  else
    redis.call('ZREM', P .. index, member)
  end
end
if open ~= '1' and ended ~= '' then
  redis.call('ZADD', P .. 'settled_runs', ended, id)
else
  redis.call('ZREM', P .. 'settled_runs', id)
end
return 1
