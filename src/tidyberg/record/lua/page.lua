-- Returns submissions by number. ARGV: 'newest' or 'oldest' first, the number to continue after or '', how many to
-- return, how many to read, created_by or '', created from or '', the number of tenants (0: any), the tenants, then the
-- indexes to read. Returns the number to continue after ('' if there are no more), then the submissions.
local newest, wanted, most = ARGV[1] == 'newest', tonumber(ARGV[3]), tonumber(ARGV[4])
local created_by, from, named = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local bound = ARGV[2] ~= '' and '(' .. ARGV[2]
local tenants = {}
for at = 8, 7 + named do tenants[ARGV[at]] = true end

local found = {}
for at = 8 + named, #ARGV do
  local some
  if newest then
    some = redis.call('ZRANGE', P .. ARGV[at], bound or '+inf', '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, most + 1, 'WITHSCORES')
  else
    some = redis.call('ZRANGE', P .. ARGV[at], bound or '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, most + 1, 'WITHSCORES')
  end
  for each = 1, #some, 2 do found[#found + 1] = {id = some[each], number = tonumber(some[each + 1])} end
end
table.sort(found, function(a, b)
  if newest then return a.number > b.number end
  return a.number < b.number
end)

local function matches(key)
  local facts = redis.call('HMGET', key, 'created_by', 'created_ms', 'tenant')
  return (created_by == '' or facts[1] == created_by) and (not from or tonumber(facts[2]) >= from)
    and (named == 0 or tenants[facts[3]])
end

local page = {''}
for at, one in ipairs(found) do
  if at > most or #page > wanted then
    page[1] = string.format('%.0f', found[at - 1].number)
    break
  end
  local key = P .. 'job:' .. one.id
  if matches(key) then page[#page + 1] = redis.call('HGETALL', key) end
end
return page
