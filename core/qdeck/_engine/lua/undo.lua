#!lua flags=allow-oom
-- Undoes one slice of a batch, job by job: each only if it is as the batch left it. Sent twice it is done once, but for
-- jobs whose parents are not restored yet: these are kept for a later call. The reply sums up all calls.
-- keys: meta ready delayed blocked running dead done cancelled removed head body lease attempts error result log unique groups after wakeup outbox stop_requests undo
-- uses: rights time open constants whole count head lease delete_records groups add_dependent wake save_counts states name_holder columns events
-- args: now, number of the slice (from 1); or `died:number` or `continued:number`, what it did to dependents; then the
--       ids of the jobs whose dependents have started: these stay, but for discarded ones, which would be lost
-- reply: now, how many were restored, how many entries the slice had, how many of the restored ran before and wait in
--        ready now, then id and reason of each skipped entry: a code, and after a blank its data
local offset = string.find(ARGV[2], '^%a+:') and ARGV[2] or redis.call('HGET', UNDO, '#' .. ARGV[2])
local packed = offset and redis.call('HGET', UNDO, offset)
if not packed then return redis.error_reply('QDECK EXPIRED') end
local readable, slice = pcall(cmsgpack.unpack, packed)
if not readable or type(slice) ~= 'table' or type(slice.t) ~= 'string' or not whole(slice.t) or type(slice.n) ~= 'number' then
  return redis.error_reply('QDECK UNDO: the kept values of this slice cannot be read')
end
local PARENT_ENDED = 'parent_ended'

local function answer(u)
  local out = { NOW, u.done, slice.n, u.requeued or 0 }
  for _, word in ipairs(u.skipped) do out[#out + 1] = word end
  return out
end
if slice.u and not slice.c then return answer(slice.u) end

local c, at = slice.c, tonumber(slice.t)
local requeued = slice.u and slice.u.requeued or 0

-- The jobs for which `test` returns no reason to skip them, as row numbers; and the reasons. A job may wait for another of
-- the slice, in either order: after each round that restored some, the skipped ones are tested again.
local restored, names = {}, {}
local function only(test)
  local kept, reasons, passed = {}, {}, {}
  for _ = 1, 10 do
    local before = #kept
    for n, id in ipairs(c.ids) do
      if not passed[n] then
        reasons[n] = test(n, id)
        if not reasons[n] then
          kept[#kept + 1] = n
          passed[n], restored[id] = true, true
        end
      end
    end
    if #kept == before or #kept == #c.ids then break end
  end
  table.sort(kept)
  return kept, reasons
end
local function pick(values, kept)
  local out = {}
  for i, n in ipairs(kept) do out[i] = values and values[n] or false end
  return out
end

-- Why to skip a job that is not where the batch left it.
local function new_state(id)
  local state = state_of(id)
  return state and 'moved ' .. state or 'gone'
end

-- A test for jobs that the batch left in a list; `fits` compares the score.
local function still(list, fits)
  local scores = redis.call('ZMSCORE', list, unpack(c.ids))
  return function(n, id)
    if not scores[n] then return new_state(id) end
    return not fits(tonumber(scores[n]), n) and 'changed' or nil
  end
end
local function lined_up(score) return score % BAND == at end
local function placed(score) return score == at end

-- A retried job is in `ready`; one that waits again for its dependency is in `blocked`.
local function still_retried()
  local ready, blocked = still(READY, lined_up), c.waits and still(BLOCKED, placed)
  return function(n, id) return (c.waits and c.waits[n] and blocked or ready)(n, id) end
end

-- Why a job may not be live again: its name is taken, or what it waits for has ended.
local function reason_not_live(id, head, refs)
  if head and string.find(head, '\nu', 1, true) then
    local name = option(head, 'n')
    local twin = name and (names[name] ~= id and names[name] or name_holder(id, name))
    if twin then return 'unique_held ' .. twin end
    if name then names[name] = id end
  end
  for ref in string.gmatch(refs or '', '%S+') do
    if not string.find(ref, '@', 1, true) and not restored[ref] then
      local state = state_of(ref)
      -- A retried job may wait for a dead one: that one has dependents then.
      local waits = LIVE[state or ''] or state == 'dead' and redis.call('HEXISTS', AFTER, '>' .. ref) == 1
      if not waits then return PARENT_ENDED end
    end
  end
  return nil
end

local function restore_live(ids, heads, refs)
  for i, id in ipairs(ids) do
    local head = heads[i]
    if head and string.find(head, '\nu', 1, true) and option(head, 'n') then
      redis.call('HSET', UNIQUE, option(head, 'n'), id)
    end
    if refs[i] then
      redis.call('HSET', AFTER, '<' .. id, refs[i])
      for ref in string.gmatch(refs[i], '%S+') do
        if string.find(ref, '@', 1, true) then
          redis.call('XADD', OUTBOX, '*', 'k', 'watch', 'r', ref, 'i', id)
        else
          add_dependent(ref, id)
        end
      end
    end
  end
end

local function release_name_of(id, head)
  local name = head and string.find(head, '\nu', 1, true) and option(head, 'n')
  if name and redis.call('HGET', UNIQUE, name) == id then redis.call('HDEL', UNIQUE, name) end
end

-- Removes the line that the batch added to the events; `added` is one for all, or a list.
local function remove_event(ids, added)
  if not added then return end
  local texts, z, none = redis.call('HMGET', ERROR, unpack(ids)), {}, {}
  for i, id in ipairs(ids) do
    local text, line = texts[i], type(added) == 'table' and added[i] or added
    if text == line then
      none[#none + 1] = id
    elseif text and string.sub(text, -#line - 1) == '\n' .. line then
      z[#z + 1], z[#z + 2] = id, string.sub(text, 1, -#line - 2)
    end
  end
  if #none > 0 then redis.call('HDEL', ERROR, unpack(none)) end
  if #z > 0 then redis.call('HSET', ERROR, unpack(z)) end
end

local function move_back(from, to, ids, scores)
  local z = {}
  for i, id in ipairs(ids) do z[2 * i - 1], z[2 * i] = scores[i], id end
  redis.call('ZREM', from, unpack(ids))
  redis.call('ZADD', to, unpack(z))
end

local undo = {}

function undo.retry(kept, ids, scores)
  for i, waits in ipairs(pick(c.waits, kept)) do
    if waits then
      redis.call('ZREM', BLOCKED, ids[i])
      redis.call('HDEL', AFTER, '<' .. ids[i])
      for ref in string.gmatch(waits, '%S+') do remove_dependent(ref, ids[i]) end
    end
  end
  move_back(READY, DEAD, ids, scores)
  if c.attempts then put(ATTEMPTS, ids, count_dead(ids, scores, pick(c.attempts, kept), c.groups or {})) end
  remove_event(ids, c.line)
  local heads = redis.call('HMGET', HEAD, unpack(ids))
  for i, id in ipairs(ids) do release_name_of(id, heads[i]) end
end

function undo.edit(kept, ids, scores)
  if slice.s == 'dead' then undo.retry(kept, ids, scores) else remove_event(ids, c.line) end
  put(BODY, ids, pick(c.body, kept))
  if c.heads then put(HEAD, ids, pick(c.heads, kept)) end
end

function undo.discard(kept, ids, scores)
  local heads, refs = pick(c.heads, kept), pick(c.waits, kept)
  put(HEAD, ids, heads)
  for key, name in pairs({ [BODY] = 'body', [ATTEMPTS] = 'attempts', [ERROR] = 'error', [RESULT] = 'result', [LOG] = 'log' }) do
    if c[name] then put(key, ids, pick(c[name], kept)) end
  end
  if c.groups then put(ATTEMPTS, ids, count_dead(ids, scores, pick(c.attempts, kept), c.groups)) end
  local z = {}
  for i, id in ipairs(ids) do z[2 * i - 1], z[2 * i] = scores[i], id end
  if LISTS[slice.s] then redis.call('ZADD', LISTS[slice.s], unpack(z)) end
  if LIVE[slice.s] then restore_live(ids, heads, refs) end
  redis.call('ZREM', REMOVED, unpack(ids))
  count('n:discarded', -#ids)
end

function undo.cancel(kept, ids, scores)
  if slice.s == 'running' then
    for i, lease in ipairs(redis.call('HMGET', LEASE, unpack(ids))) do
      local words = string.match(lease, '^%S+ %S+ %S+ %S+')
      local flags = string.gsub(select(3, read_lease(lease)), 'c', '')
      redis.call('HSET', LEASE, ids[i], flags == '' and words or words .. ' ' .. flags)
    end
    if c.stop and redis.call('XDEL', STOP_REQUESTS, c.stop) == 1 and redis.call('XLEN', STOP_REQUESTS) == 0 then
      redis.call('DEL', STOP_REQUESTS)
    end
    return
  end
  move_back(CANCELLED, LISTS[slice.s], ids, scores)
  remove_event(ids, c.line)
  restore_live(ids, redis.call('HMGET', HEAD, unpack(ids)), pick(c.waits, kept))
  count('n:cancelled', -#ids)
end

function undo.complete(kept, ids, scores)
  move_back(DONE, LISTS[slice.s], ids, scores)
  if c.attempts then put(ATTEMPTS, ids, count_dead(ids, scores, pick(c.attempts, kept), c.groups or {})) end
  remove_event(ids, c.line)
  if LIVE[slice.s] then restore_live(ids, redis.call('HMGET', HEAD, unpack(ids)), pick(c.waits, kept)) end
  count('n:done', -#ids)
end

function undo.run(_, ids, scores)
  move_back(READY, DELAYED, ids, scores)
end

function undo.reprioritise(kept, ids, scores)
  put(HEAD, ids, pick(c.heads, kept))
  if slice.s == 'ready' then move_back(READY, READY, ids, scores) end
end

function undo.bury(kept, ids, scores)
  local to = slice.s
  if to == 'running' then -- its lease is lost: it goes to its old place in `ready`
    to, requeued = 'ready', requeued + #ids
    for i, lease in ipairs(pick(c.leases, kept)) do scores[i] = select(2, read_lease(lease)) or at end
  end
  move_back(DEAD, LISTS[to], ids, scores)
  local attempts = redis.call('HMGET', ATTEMPTS, unpack(ids))
  uncount_dead(attempts)
  for i, id in ipairs(ids) do
    local own = attempts[i] and string.match(attempts[i], '^%d+ %d+ %d+')
    if own == '0 0 0' then redis.call('HDEL', ATTEMPTS, id) elseif own then redis.call('HSET', ATTEMPTS, id, own) end
  end
  if slice.s == 'running' then -- its attempt was interrupted: the history keeps that
    add_events(ids, 'requeued', '{"reason":"its bury was undone"}')
  else
    remove_event(ids, c.line or pick(c.lines, kept))
  end
  restore_live(ids, redis.call('HMGET', HEAD, unpack(ids)), pick(c.waits, kept))
  for _, id in ipairs(ids) do
    local handler = id .. '-f' .. slice.t
    if redis.call('ZREM', READY, handler) == 1 then
      delete_records({ handler })
      count('n:enqueued', -1)
    end
  end
  count('n:dead', -#ids)
end

-- A dependent that died of the batch waits again.
undo.died = undo.bury

-- A dependent that stopped waiting waits again.
function undo.continued(kept, ids, scores)
  for i, id in ipairs(ids) do
    local ref = c.waits[kept[i]]
    local need = redis.call('HGET', AFTER, '<' .. id)
    if not need then
      redis.call('ZREM', READY, id)
      redis.call('ZREM', DELAYED, id)
      redis.call('ZADD', BLOCKED, scores[i], id)
    end
    redis.call('HSET', AFTER, '<' .. id, need and ref .. ' ' .. need or ref)
    if string.find(ref, '@', 1, true) then
      redis.call('XADD', OUTBOX, '*', 'k', 'watch', 'r', ref, 'i', id)
    else
      add_dependent(ref, id)
    end
  end
end

local function test_continued(n, id)
  local state, score = state_of(id)
  local waits = state == 'blocked'
  local same = waits or state == 'ready' and lined_up(score) or state == 'delayed' and score == tonumber(c.scores[n])
  if not same then return state and 'moved ' .. state or 'gone' end
  return reason_not_live(id, nil, c.waits[n])
end

-- The test for jobs that got a version from the batch, which must be the last one.
local function unchanged(test)
  local heads = redis.call('HMGET', HEAD, unpack(c.ids))
  return function(n, id)
    local reason = test(n, id)
    if reason then return reason end
    return (not heads[n] or option(heads[n], 'v') ~= c.version) and 'changed' or nil
  end
end

-- The test of a verb: is the job as the batch left it, and may it be restored?
local function test_of()
  local verb = slice.v
  if verb == 'requeue' then return function() return 'lease_lost' end end
  if verb == 'retry' then return still_retried() end
  if verb == 'run' then return still(READY, lined_up) end
  if verb == 'edit' and slice.s == 'dead' then return unchanged(still_retried()) end
  if verb == 'reprioritise' or verb == 'edit' then
    local heads = redis.call('HMGET', HEAD, unpack(c.ids))
    return unchanged(still(LISTS[slice.s], function(score, n)
      local moved = 0
      if verb == 'reprioritise' and slice.s == 'ready' then
        moved = (priority_of(heads[n]) - priority_of(c.heads[n])) * BAND
      end
      return score == tonumber(c.scores[n]) + moved
    end))
  end
  if verb == 'discard' then
    local heads, done = redis.call('HMGET', HEAD, unpack(c.ids)), redis.call('ZMSCORE', DONE, unpack(c.ids))
    return function(n, id)
      if heads[n] or done[n] then return 'already_there' end
      return LIVE[slice.s] and reason_not_live(id, c.heads[n], c.waits and c.waits[n]) or nil
    end
  end
  if verb == 'cancel' and slice.s == 'running' then
    local leases = redis.call('HMGET', LEASE, unpack(c.ids))
    return function(n, id)
      local mine = string.match(c.leases[n], '^%S+ ')
      return (not read_lease(leases[n]) or string.sub(leases[n], 1, #mine) ~= mine) and new_state(id) or nil
    end
  end
  if verb == 'continued' then return test_continued end
  local list = verb == 'cancel' and CANCELLED or verb == 'complete' and DONE or DEAD
  local there, heads = still(list, placed), redis.call('HMGET', HEAD, unpack(c.ids))
  return function(n, id)
    local reason = there(n, id)
    if reason or slice.s == 'dead' then return reason end
    return reason_not_live(id, heads[n], c.waits and c.waits[n])
  end
end

-- The columns with these rows only; values that hold for all rows stay.
local function rows_of(numbers)
  local out = { line = c.line, groups = c.groups, version = c.version, stop = c.stop }
  for name, values in pairs(c) do
    if not out[name] then out[name] = pick(values, numbers) end
  end
  return out
end

local u = { done = slice.u and slice.u.done or 0, skipped = slice.u and slice.u.final or {}, final = {} }
local retryable = {}
if not c then
  u.skipped = { '', 'undo_not_kept ' .. slice.n }
elseif c.ids and #c.ids > 0 then
  local stays, test = {}, test_of()
  for i = 3, slice.v ~= 'discard' and #ARGV or 0 do stays[ARGV[i]] = true end
  local kept, reasons = only(function(n, id) return stays[id] and 'dependents_started' or test(n, id) end)
  if #kept > 0 then undo[slice.v](kept, pick(c.ids, kept), pick(c.scores, kept)) end
  u.done, u.requeued = u.done + #kept, requeued
  for _, word in ipairs(u.skipped) do u.final[#u.final + 1] = word end
  for n, id in ipairs(c.ids) do
    if reasons[n] then
      u.skipped[#u.skipped + 1], u.skipped[#u.skipped + 2] = id, reasons[n]
      if reasons[n] == PARENT_ENDED then
        retryable[#retryable + 1] = n
      else
        u.final[#u.final + 1], u.final[#u.final + 2] = id, reasons[n]
      end
    end
  end
end
if not string.find(ARGV[2], ':', 1, true) and u.done > 0 then
  count('restored', u.done - (slice.u and slice.u.done or 0), UNDO)
end
slice.c, slice.u = #retryable > 0 and rows_of(retryable) or nil, u
local left = cmsgpack.pack(slice)
redis.call('HSET', UNDO, offset, left)
count('bytes', #left - #packed, UNDO)
if redis.call('ZCARD', READY) > 0 then wake() end
save_counts()
return answer(u)
