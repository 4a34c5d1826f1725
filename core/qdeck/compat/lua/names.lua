#!lua flags=allow-oom
-- Keeps which waiting jobs have a name that another one held when they were enqueued, and gives them the name when
-- that one has ended: so a name leads to a job as long as one of its jobs is live.
-- keys: meta ready delayed blocked running dead done cancelled head unique
-- uses: time open constants whole count head states
-- args: now, name, id of a job that was just enqueued without the name, or ''
-- The last key is a hash: name → ids. It expires a month after it was written last.
-- reply: now, the id that holds the name, or ''
local NAMES = KEYS[#KEYS]
local MOST, KEEP_MS = 1000, 2592000000
local name, added = ARGV[2], ARGV[3]
local function is_live(id) return LIVE[state_of(id) or ''] end

local waiting = {}
for id in string.gmatch((redis.call('HGET', NAMES, name) or '') .. ' ' .. added, '%S+') do
  if #waiting < MOST and is_live(id) then waiting[#waiting + 1] = id end
end
local holder = redis.call('HGET', UNIQUE, name)
if not holder or not is_live(holder) then
  holder = table.remove(waiting, 1)
  local head = holder and redis.call('HGET', HEAD, holder)
  if head then
    redis.call('HSET', UNIQUE, name, holder)
    if not string.find(head, '\nu', 1, true) then redis.call('HSET', HEAD, holder, head .. '\nu') end
  end
end
if #waiting > 0 then
  redis.call('HSET', NAMES, name, table.concat(waiting, ' '))
  redis.call('PEXPIRE', NAMES, KEEP_MS)
else
  redis.call('HDEL', NAMES, name)
end
return { NOW, holder or '' }
