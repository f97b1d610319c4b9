-- The client sends a call again if its answer was lost. So the answer of a call is kept for a while under its own key,
-- KEYS[2], and returned again instead of running the call again.
local function answered() return redis.call('GET', KEYS[2]) end

local function remember(answer)
  redis.call('SET', KEYS[2], answer, 'PX', 60000)
  return answer
end
