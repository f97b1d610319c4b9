-- The client sends a call again when its answer was lost: what such a call did is remembered for a while under a name of
-- its own, KEYS[2], and answered again instead of being done again.
local function answered() return redis.call('GET', KEYS[2]) end

local function remember(answer)
  redis.call('SET', KEYS[2], answer, 'PX', 60000)
  return answer
end
