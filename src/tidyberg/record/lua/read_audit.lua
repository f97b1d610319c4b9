-- Returns entries, newest first, as number, document, …. ARGV: the number to start before or '', how many, indexes.
local numbers, entries = {}, {}
for at = 3, #ARGV do
  local start = ARGV[1] == '' and '+inf' or '(' .. ARGV[1]
  local some = redis.call('ZRANGE', P .. ARGV[at], start, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, ARGV[2])
  for _, number in ipairs(some) do numbers[#numbers + 1] = tonumber(number) end
end
table.sort(numbers, function(a, b) return a > b end)
for at = 1, math.min(#numbers, tonumber(ARGV[2])) do
  local number = string.format('%.0f', numbers[at])
  entries[#entries + 1] = number
  entries[#entries + 1] = redis.call('HGET', P .. 'audit', number)
end
return entries
