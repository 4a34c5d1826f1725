#!lua flags=allow-oom
-- Works without memory to spare, because what it does most is give things up.
-- The temporary queues (responses and callbacks) of all tasks: which there are, until when, whose they are, and who waits.
-- A queue is registered before it is made, and its reader's deadline is written before it waits: Redis cannot tell who
-- is blocked on a key. A queue that is being removed cannot be waited on, and one that is waited on cannot be removed.
-- keys: queues (zset: name, ms until it lives) waiting (zset: name, ms until a reader waits) about (hash: name ->
--   `made_ms ttl_ms service type tier task`) tasks (zset, all scores 0: `task NUL name`) callbacks (zset, all scores 0:
--   name) removing (zset: name, ms until its remover may act) metrics (hash: `event service type tier` -> count)
--   readers (hash: name -> how many wait there besides the first)
-- args: verb, then
--   register: name, ttl ms, ms that a reader waits or '', service, type, tier, task
--                                                 reply: 1 made, 0 renewed, -1 is being removed
--   touch: names                                  reply: how many are registered; those live as long again
--   begin: ms to act, then names                  reply: per name 1, or 0 when a reader waits there, or 2 when another
--                                                 remover has it: two at once would not know of what comes in between
--   finish: event, then per name: name, messages, bytes, `service type tier` for one that is not registered
--                                                 reply: per name 1, or 0 when it was not registered
--   strike: the same for a remover that announced itself; what was registered anew since is left alone
--   leave: names, without readers by now          reply: 0
--   keep: names that are not removed after all    reply: 0
--   expired: how many at most                     reply: expired names without a reader
local QUEUES, WAITING, ABOUT, TASKS, CALLBACKS, REMOVING, METRICS, READERS = unpack(KEYS)
local t = redis.call('TIME')
local NOW = t[1] * 1000 + math.floor(t[2] / 1000)
local verb = ARGV[1]

local function text(ms) return string.format('%.0f', ms) end
local function after(key, name)
  local at = redis.call('ZSCORE', key, name)
  return at and tonumber(at) > NOW
end

-- Services and tiers are words of messages: beyond so many kinds what is new is counted as `other`.
local function tally(event, group, by)
  local field = event .. ' ' .. group
  local count = redis.pcall('HINCRBY', METRICS, field, by) -- a count that is broken stops nothing
  if count == by and redis.call('HLEN', METRICS) > 5000 then
    redis.call('HDEL', METRICS, field)
    redis.pcall('HINCRBY', METRICS, event .. ' other other -', by)
  end
end

if verb == 'register' then
  local name, ttl, wait, task = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[8]
  local removing = redis.call('ZSCORE', REMOVING, name)
  if removing then
    if tonumber(removing) > NOW then return -1 end
    redis.call('ZREM', REMOVING, name)
  end
  local till = NOW + ttl
  if wait ~= '' then
    local waiting = redis.call('ZSCORE', WAITING, name)
    if waiting then
      if tonumber(waiting) > NOW then
        redis.call('HINCRBY', READERS, name, 1)
      else
        redis.call('HDEL', READERS, name)
      end
    end
    till = math.max(till, NOW + tonumber(wait))
    redis.call('ZADD', WAITING, 'GT', text(NOW + tonumber(wait)), name)
  end
  -- Use makes it live longer, never shorter.
  local made = redis.call('ZADD', QUEUES, 'GT', text(till), name)
  if made == 1 then
    local group = ARGV[5] .. ' ' .. ARGV[6] .. ' ' .. ARGV[7]
    redis.call('HSET', ABOUT, name, text(NOW) .. ' ' .. ARGV[3] .. ' ' .. group .. ' ' .. task)
    if task ~= '' then redis.call('ZADD', TASKS, 0, task .. '\0' .. name) end
    if ARGV[6] == 'callbacks' then redis.call('ZADD', CALLBACKS, 0, name) end
    tally('made', group, 1)
  elseif task ~= '' then
    -- An answer that came first registered the queue without a task: only the caller has it.
    local about = redis.call('HGET', ABOUT, name)
    local head, known = string.match(about or '', '^(%d+ %d+ %S+ %S+ %S+ )(.*)$')
    if known == '' then
      redis.call('HSET', ABOUT, name, head .. task)
      redis.call('ZADD', TASKS, 0, task .. '\0' .. name)
    end
  end
  return made
end

if verb == 'touch' then
  local found = 0
  for i = 2, #ARGV do
    local about = redis.call('HGET', ABOUT, ARGV[i])
    local ttl = about and tonumber(string.match(about, '^%d+ (%d+)'))
    if ttl then
      redis.call('ZADD', QUEUES, 'XX', 'GT', text(NOW + ttl), ARGV[i])
      found = found + 1
    end
  end
  return found
end

if verb == 'begin' then
  -- Announcements of removers that did not live to act.
  redis.call('ZREMRANGEBYSCORE', REMOVING, '-inf', text(NOW - 60000))
  local free = {}
  for i = 3, #ARGV do
    if after(WAITING, ARGV[i]) then
      free[i - 2] = 0
    elseif after(REMOVING, ARGV[i]) then
      free[i - 2] = 2
    else
      redis.call('ZADD', REMOVING, text(NOW + tonumber(ARGV[2])), ARGV[i])
      free[i - 2] = 1
    end
  end
  return free
end

if verb == 'finish' or verb == 'strike' then
  local struck = {}
  for i = 3, #ARGV, 4 do
    local name = ARGV[i]
    local mine = verb == 'finish' or redis.call('ZSCORE', REMOVING, name)
    local about = mine and redis.call('HGET', ABOUT, name)
    local group = ARGV[i + 3]
    struck[#struck + 1] = about and 1 or 0
    if about then
      local found, task = string.match(about, '^%d+ %d+ (%S+ %S+ %S+) (.*)$')
      group = found or 'unreadable unknown -'
      if task and task ~= '' then redis.call('ZREM', TASKS, task .. '\0' .. name) end
      redis.call('HDEL', ABOUT, name)
    end
    if mine then
      redis.call('ZREM', QUEUES, name)
      redis.call('ZREM', CALLBACKS, name)
      if redis.call('ZREM', WAITING, name) == 1 then redis.call('HDEL', READERS, name) end
      redis.call('ZREM', REMOVING, name)
    end
    local size, bytes = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
    if about or size > 0 then tally(ARGV[2], group, 1) end
    if size > 0 then
      tally('discarded', group, size)
      tally('freed', group, bytes)
    end
  end
  return struck
end

if verb == 'leave' then
  for i = 2, #ARGV do
    if redis.call('HEXISTS', READERS, ARGV[i]) == 0 then
      redis.call('ZREM', WAITING, ARGV[i])
    elseif redis.call('HINCRBY', READERS, ARGV[i], -1) <= 0 then
      redis.call('HDEL', READERS, ARGV[i])
    end
  end
  return 0
end

if verb == 'keep' then
  for i = 2, #ARGV do redis.call('ZREM', REMOVING, ARGV[i]) end
  return 0
end

local over = {}
-- The more of them wait, the later the rest comes: a reader's deadline ends too.
for _, name in ipairs(redis.call('ZRANGEBYSCORE', QUEUES, '-inf', text(NOW), 'LIMIT', 0, tonumber(ARGV[2]))) do
  if not after(WAITING, name) then over[#over + 1] = name end
end
return over
