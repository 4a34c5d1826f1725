#!lua
-- Makes jobs with one template that are ready at once. Ids come from the caller: the same call sent twice makes each
-- job once.
-- keys: meta ready done removed head body wakeup
-- uses: time open constants whole count was_removed wake
-- args: now, priority, template, then per job: id, body
-- A template is a head without its time.
-- reply: now, then per job 1 (made) or 0 (existed)
local score = tonumber(ARGV[2]) * BAND + NOW
local head = STAMP .. ' ' .. ARGV[3]

-- One job, without the tables that a batch needs.
if #ARGV == 5 then
  local id = ARGV[4]
  if redis.call('ZSCORE', DONE, id) or was_removed(id) or redis.call('HSETNX', HEAD, id, head) == 0 then return { NOW, 0 } end
  redis.call('HSET', BODY, id, ARGV[5])
  redis.call('ZADD', READY, score, id)
  count('n:enqueued', 1)
  count('ready', 1)
  wake()
  return { NOW, 1 }
end

local made = { NOW }
local ids = {}
for i = 4, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local heads = redis.call('HMGET', HEAD, unpack(ids))
local done = redis.call('ZMSCORE', DONE, unpack(ids))
local any_removed = redis.call('EXISTS', REMOVED) == 1
local seen, z, h, b, n = {}, {}, {}, {}, 0
for i, id in ipairs(ids) do
  if heads[i] or done[i] or seen[id] or any_removed and was_removed(id) then
    made[i + 1] = 0
  else
    seen[id] = true
    made[i + 1] = 1
    z[n + 1], h[n + 1], b[n + 1] = score, id, id
    z[n + 2], h[n + 2], b[n + 2] = id, head, ARGV[3 + i * 2]
    n = n + 2
  end
end
if n > 0 then
  redis.call('HSET', HEAD, unpack(h))
  redis.call('HSET', BODY, unpack(b))
  redis.call('ZADD', READY, unpack(z))
  count('n:enqueued', n / 2)
  count('ready', n / 2)
  wake()
end
return made
