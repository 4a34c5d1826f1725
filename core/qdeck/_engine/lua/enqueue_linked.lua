#!lua
-- Makes jobs that may wait: for a time, for other jobs, or behind the one that holds their unique name. Ids come from
-- the caller: the same call sent twice makes each job once.
-- keys: meta ready delayed blocked dead done cancelled removed head body tries error uniq groups after bell outbox
-- uses: time open constants resent head note free place removed groups handler ended await ring
-- args: now, then per job: id, priority, tail, body, delay ms or '', due ms or '', unique name or '', refs or ''
-- A tail is all of a head but the time. A ref is `id`, or `id@queue` for a job of another queue.
-- reply: now, then per job 1 (made), 0 (was there already), or the id of the job that holds the unique name
local made = { NOW }

local function exists(ids)
  local heads = redis.call('HMGET', HEAD, unpack(ids))
  local done = redis.call('ZMSCORE', DONE, unpack(ids))
  local any_removed = redis.call('EXISTS', REMOVED) == 1
  local found = {}
  for i, id in ipairs(ids) do
    if heads[i] or done[i] or any_removed and was_removed(id) then found[id] = true end
  end
  return found
end

local ids = {}
for i = 2, #ARGV, 8 do ids[#ids + 1] = ARGV[i] end
local there = exists(ids)
local known = {}
for i, id in ipairs(ids) do
  for ref in string.gmatch(there[id] and '' or ARGV[1 + i * 8], '%S+') do
    if not string.find(ref, '@', 1, true) and not known[ref] and redis.call('HEXISTS', HEAD, ref) == 0
      and not redis.call('ZSCORE', DONE, ref) then
      return redis.error_reply('QDECK DEPENDENCY ' .. ref)
    end
  end
  known[id] = true
end

-- How the job that is waited for has ended, or nil while it has not.
local function outcome_of(ref)
  if redis.call('ZSCORE', DONE, ref) then return 'done' end
  if redis.call('ZSCORE', DEAD, ref) then return 'dead' end
  if redis.call('ZSCORE', CANCELLED, ref) then return 'cancelled' end
  return nil
end

local function holder_of(name)
  local holder = redis.call('HGET', UNIQ, name)
  if holder and redis.call('HEXISTS', HEAD, holder) == 1 and not outcome_of(holder) then return holder end
  return nil
end

-- What the job still waits for; more values tell why it cannot run any more. A job of this call that was not made
-- is stood for by the one that holds its unique name.
local stands_for = {}
local function wants(head, refs)
  local need = {}
  for ref in string.gmatch(refs, '%S+') do
    ref = stands_for[ref] or ref
    if string.find(ref, '@', 1, true) then
      need[#need + 1] = ref
    else
      local outcome = outcome_of(ref)
      if not outcome then
        need[#need + 1] = ref
      elseif outcome ~= 'done' and not string.find(head, '\ndrun', 1, true) then
        return nil, outcome, '{"on":"' .. ref .. '","outcome":"' .. outcome .. '"}'
      end
    end
  end
  return need
end

local function block(id, need, due)
  redis.call('ZADD', BLOCKED, due, id)
  redis.call('HSET', AFTER, '<' .. id, table.concat(need, ' '))
  for _, ref in ipairs(need) do
    if string.find(ref, '@', 1, true) then
      redis.call('XADD', OUTBOX, '*', 'k', 'watch', 'r', ref, 'i', id)
    else
      await(ref, id)
    end
  end
end

local count = 0
for i, id in ipairs(ids) do
  local at = i * 8 - 6
  local name, head = ARGV[at + 6], STAMP .. ' ' .. ARGV[at + 2]
  local holder = name ~= '' and holder_of(name) or nil
  if there[id] then
    made[i + 1] = 0
  elseif holder then
    made[i + 1] = holder
    stands_for[id] = holder
  else
    there[id] = true
    count = count + 1
    made[i + 1] = 1
    if name ~= '' then redis.call('HSET', UNIQ, name, id) end
    redis.call('HSET', HEAD, id, head)
    redis.call('HSET', BODY, id, ARGV[at + 3])
    local due = ARGV[at + 4] ~= '' and NOW + tonumber(ARGV[at + 4]) or tonumber(ARGV[at + 5]) or NOW
    local need, dead, event = wants(head, ARGV[at + 7])
    if dead then
      note(id, 'dependency', event)
      bury(id, head, 'DependencyFailed\njob # is ' .. dead)
    elseif #need > 0 then
      block(id, need, due)
    else
      place(id, head, due)
    end
  end
end
if count > 0 then
  redis.call('HINCRBY', META, 'n:enqueued', count)
  redis.call('HSET', META, 'ready', redis.call('ZCARD', READY), 'delayed', redis.call('ZCARD', DELAYED),
    'blocked', redis.call('ZCARD', BLOCKED), 'dead_letter', redis.call('ZCARD', DEAD))
  local first = redis.call('ZRANGE', DELAYED, 0, 0)[1]
  if redis.call('ZCARD', READY) > 0 or (first and there[first]) then ring() end
end
return made
