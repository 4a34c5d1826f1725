#!lua
-- Makes jobs that may wait for a time or for other jobs, or have a unique name. Ids come from the caller: the same call
-- sent twice makes each job once.
-- keys: meta ready delayed blocked dead done cancelled removed head body attempts error unique groups after wakeup outbox
-- uses: time open constants whole count too_old was_removed head attempts event release_name put_waiting removed early_ending groups handler dependents add_dependent wake
-- args: now, when the jobs were announced (0: they were not), then per job: id, priority, template, body, delay ms or '', due ms or '', unique name or '', refs or ''
-- A template is a head without its time. A ref is `id`; or `id@queue` for a job of another queue, to which the outbox
-- announces the waiting job; or `id@queue!outcome` when it was announced before and that queue returned the outcome of
-- its job, `live` when it had not ended. Then its end may have arrived here first.
-- reply: now, then per job 1 (made), 0 (existed), or the id of the job that holds the unique name
if is_too_old(ARGV[2]) then return redis.error_reply('QDECK LATE') end
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
for i = 3, #ARGV, 8 do ids[#ids + 1] = ARGV[i] end
local there = exists(ids)
local known = {}
for i, id in ipairs(ids) do
  for ref in string.gmatch(there[id] and '' or ARGV[2 + i * 8], '%S+') do
    local far = string.find(ref, '@', 1, true)
    if not far and not known[ref] and redis.call('HEXISTS', HEAD, ref) == 0 and not redis.call('ZSCORE', DONE, ref)
      or far and string.match(ref, '!(.*)$') == 'unknown' then
      return redis.error_reply('QDECK DEPENDENCY ' .. string.match(ref, '^[^!]+'))
    end
  end
  known[id] = true
end

-- The outcome of a parent, or nil while it is live.
local function outcome_of(ref)
  if redis.call('ZSCORE', DONE, ref) then return 'done' end
  if redis.call('ZSCORE', DEAD, ref) then return 'dead' end
  if redis.call('ZSCORE', CANCELLED, ref) then return 'cancelled' end
  return nil
end

-- The outcome of a parent in another queue, if it arrived here before this call.
local ENDS = { 'done', 'dead', 'cancelled', 'discarded', 'unknown' }
local function outcome_before(child, ref)
  for _, outcome in ipairs(ENDS) do
    if redis.call('ZSCORE', REMOVED, early_ending(child, ref, outcome)) then return outcome end
  end
end

local function holder_of(name)
  local holder = redis.call('HGET', UNIQUE, name)
  if holder and redis.call('HEXISTS', HEAD, holder) == 1 and not outcome_of(holder) then return holder end
  return nil
end

-- The refs that a job still waits for; or nil, and why it cannot run any more. The holder of a unique name stands in for
-- a job of this call that was not made.
local stand_ins = {}
local function pending_refs(id, head, refs)
  local need, unannounced = {}, {}
  for ref in string.gmatch(refs, '%S+') do
    ref = stand_ins[ref] or ref
    local outcome
    if string.find(ref, '@', 1, true) then
      ref, outcome = string.match(ref, '^([^!]+)!?(.*)$')
      if outcome == '' then unannounced[ref] = true end
      if outcome == 'live' or outcome == '' then outcome = outcome_before(id, ref) end
    else
      outcome = outcome_of(ref)
    end
    if not outcome then
      need[#need + 1] = ref
    elseif outcome ~= 'done' and not string.find(head, '\ndrun', 1, true) then
      return nil, outcome, '{"on":"' .. ref .. '","outcome":"' .. outcome .. '"}'
    end
  end
  return need, nil, nil, unannounced
end

local function block(id, need, due, unannounced)
  redis.call('ZADD', BLOCKED, due, id)
  redis.call('HSET', AFTER, '<' .. id, table.concat(need, ' '))
  for _, ref in ipairs(need) do
    if unannounced[ref] then
      redis.call('XADD', OUTBOX, '*', 'k', 'watch', 'r', ref, 'i', id)
    elseif not string.find(ref, '@', 1, true) then
      add_dependent(ref, id)
    end
  end
end

local fresh = 0
for i, id in ipairs(ids) do
  local at = i * 8 - 5
  local name, head = ARGV[at + 6], STAMP .. ' ' .. ARGV[at + 2]
  local holder = name ~= '' and holder_of(name) or nil
  if there[id] then
    made[i + 1] = 0
  elseif holder then
    made[i + 1] = holder
    stand_ins[id] = holder
  else
    there[id] = true
    fresh = fresh + 1
    made[i + 1] = 1
    if name ~= '' then redis.call('HSET', UNIQUE, name, id) end
    redis.call('HSET', HEAD, id, head)
    redis.call('HSET', BODY, id, ARGV[at + 3])
    local due = ARGV[at + 4] ~= '' and NOW + tonumber(ARGV[at + 4]) or tonumber(ARGV[at + 5]) or NOW
    local need, dead, event, unannounced = pending_refs(id, head, ARGV[at + 7])
    if dead then
      add_event(id, 'dependency', event)
      bury(id, head, 'DependencyFailed\njob # is ' .. dead)
    elseif #need > 0 then
      block(id, need, due, unannounced)
    else
      put_waiting(id, head, due)
    end
  end
end
if fresh > 0 then
  count('n:enqueued', fresh)
  redis.call('HSET', META, 'ready', redis.call('ZCARD', READY), 'delayed', redis.call('ZCARD', DELAYED),
    'blocked', redis.call('ZCARD', BLOCKED), 'dead_letter', redis.call('ZCARD', DEAD))
  local first = redis.call('ZRANGE', DELAYED, 0, 0)[1]
  if redis.call('ZCARD', READY) > 0 or (first and there[first]) then wake() end
end
return made
