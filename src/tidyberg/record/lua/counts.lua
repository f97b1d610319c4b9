-- Counts submissions by tenant and status. Returns tenant, status, number, …. ARGV: the statuses.
local found = {}
for _, tenant in ipairs(redis.call('SMEMBERS', P .. 'tenants')) do
  for _, status in ipairs(ARGV) do
    local number = redis.call('ZCARD', of_tenant(tenant, status))
    if number > 0 then
      found[#found + 1] = tenant
      found[#found + 1] = status
      found[#found + 1] = tostring(number)
    end
  end
end
return found
