#!lua flags=allow-oom
-- Applies a verb to a slice of jobs, each only if its version is the planned one, and keeps what undoes it in the same
-- step. Sent twice it is done once: the second call gets the kept reply.
-- keys: meta ready delayed blocked running dead done cancelled removed head body lease attempts error result log unique groups after unknown_tasks wakeup outbox stop_requests undo
-- uses: rights time open constants whole count head versions attempts lease event release_name put_waiting delete_records removed groups handler dependents add_dependent wake save_counts states name_holder columns events affected stop_requests unknown_tasks
-- args: now, verb, planned state (`*`: each entry names its own, or ''), offset of the slice in its plan ('': nothing is
--       kept), most bytes kept for the batch, ms to keep, event, extra, bytes read at most, signature for the groups of
--       dead letters ('': a fixed one), then per entry: id, version (its score, and after a blank the number of its last
--       change if it waits and was changed; of a running job its token); for `edit` the old payload and its text for the
--       events follow
-- extra: reprioritise: priority · move, return: queue · edit: payload · retry: `run`, or '': a job that died with its
--        dependency waits for it again
-- kept in `undo`: offset → the slice (msgpack: v verb, s state, n entries, t when, k skipped, a requested, c columns),
--       `#number` → offset, `slices`, `bytes`, `applied`, `undoable`; and what became of dependents: see the piece `affected`
-- With `*` nothing is kept, and a running job whose cancel is requested is among the skipped, as `requested`.
-- reply: now, how many entries were read (the rest is for the next call), 1 if undo is kept, how many cancels were
--        requested, entries in the outbox, bytes kept of the batch, then index (from 0) and reason of each skipped
--        entry: a code, and after a blank its data
local verb, planned_state, offset, event, extra = ARGV[2], ARGV[3], ARGV[4], ARGV[7], ARGV[8]
local keep_bytes, keep_ms, most_bytes = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[9])
local group = ARGV[10] ~= '' and ARGV[10] or 'Buried\nby an operator'
local FIXED_ARGS = 10
local ID_TAKEN = '!' -- version of a job whose id is taken in the queue that it would be moved to
local entries = math.floor((#ARGV - FIXED_ARGS) / 2)
if entries > 500 then return redis.error_reply('QDECK APPLY on too many entries for one call') end

local function answer(n, kept, requested, skipped)
  local bytes = offset ~= '' and whole(redis.call('HGET', UNDO, 'bytes')) or 0
  local out = { NOW, n, kept, requested, redis.call('XLEN', OUTBOX), bytes }
  for _, word in ipairs(skipped) do out[#out + 1] = word end
  return out
end

if offset ~= '' then
  local kept = redis.call('HGET', UNDO, offset)
  if kept then
    local readable
    readable, kept = pcall(cmsgpack.unpack, kept)
    if not readable or type(kept) ~= 'table' then
      return redis.error_reply('QDECK APPLY: the kept reply of this slice cannot be read')
    end
    if kept.u then return redis.error_reply('QDECK UNDONE') end
    return answer(kept.n, kept.c and verb ~= 'requeue' and 1 or 0, kept.a, kept.k)
  end
end

local reasons, requested = {}, 0 -- by index of the entry
local left_unknown = false -- whether a job left that waited for a worker with its task
local has_dependents = redis.call('HLEN', AFTER) > 0

-- How many jobs this call changes: as many as have no more than `most_bytes` of values to read, at least one.
-- Lengths are read first: small values say nothing about the next one.
local function within(ids)
  if verb == 'run' or verb == 'reprioritise' then return #ids end -- reads none
  local parts = { ERROR }
  if verb == 'discard' or verb == 'move' or verb == 'return' then parts = { ERROR, BODY, RESULT, LOG } end
  if verb == 'bury' then parts = { ERROR, BODY } end -- a handler gets a copy
  local filled, bytes = {}, 0
  for _, key in ipairs(parts) do
    if redis.call('HLEN', key) > 0 then filled[#filled + 1] = key end
  end
  for n, id in ipairs(ids) do
    for _, key in ipairs(filled) do bytes = bytes + redis.call('HSTRLEN', key, id) end
    if n > 1 and bytes > most_bytes then
      for i = #ids, n, -1 do ids[i] = nil end
      return n - 1
    end
  end
  return #ids
end

-- The jobs of `j` for which `test` returns no reason to skip them.
local function only(j, test)
  local refused = 0
  for n, id in ipairs(j.ids) do
    local reason = test(id, j.heads[n], n)
    if reason then
      reasons[j.i[n]] = reason
      refused = refused + 1
    end
  end
  if refused == 0 then return j end
  local kept = { i = {}, ids = {}, scores = {}, heads = {}, leases = j.leases and {} or nil }
  for n, id in ipairs(j.ids) do
    if not reasons[j.i[n]] then
      local to = #kept.ids + 1
      kept.i[to], kept.ids[to], kept.scores[to], kept.heads[to] = j.i[n], id, j.scores[n], j.heads[n]
      if j.leases then kept.leases[to] = j.leases[n] end
    end
  end
  return kept
end

local function each_score(ids, score)
  local z = {}
  for n, id in ipairs(ids) do z[2 * n - 1], z[2 * n] = score, id end
  return z
end

-- To `ready`, behind jobs of their priority.
local function append_to_ready(j)
  local z = {}
  for n, id in ipairs(j.ids) do z[2 * n - 1], z[2 * n] = priority_of(j.heads[n]) * BAND + NOW, id end
  redis.call('ZADD', READY, unpack(z))
end

-- Takes and returns what the jobs wait for.
local function waits_of(j, state)
  if state ~= 'blocked' then return nil end
  local fields = {}
  for n, id in ipairs(j.ids) do fields[n] = '<' .. id end
  local refs = column(AFTER, fields)
  redis.call('HDEL', AFTER, unpack(fields))
  return refs
end

local function end_jobs(j, outcome)
  for n, id in ipairs(j.ids) do
    if j.heads[n] then release_name(id, j.heads[n]) end
  end
  if not has_dependents then return end
  for _, id in ipairs(j.ids) do resolve_dependents(id, outcome) end
end

-- What a job waits for again that died because of a dependency: jobs of this queue that may still succeed.
local function waits_again(text)
  local last = text and string.match('\n' .. string.sub(text, -6000), '\n([^\n]*)$')
  local ref, more = string.match(last or '', '^%d+ dependency ."on":"([^"]*)","outcome":"[^"]*"(.*)$')
  if not ref then return nil end
  local need = {}
  for one in string.gmatch(ref .. ' ' .. (string.match(more, ',"left":"([^"]*)"') or ''), '%S+') do
    local state = not string.find(one, '@', 1, true) and state_of(one)
    if LIVE[state or ''] or state == 'dead' then need[#need + 1] = one end
  end
  return #need > 0 and need or nil
end

-- Blocks the jobs that wait again. Returns the others, and for each job what it waits for, or nil if none does.
local function block_again(j, events)
  local others, waits, any = { ids = {}, heads = {} }, {}, false
  for n, id in ipairs(j.ids) do
    local need = events and (verb ~= 'retry' or extra ~= 'run') and waits_again(events[n])
    waits[n] = need and table.concat(need, ' ') or false
    if need then
      any = true
      redis.call('ZADD', BLOCKED, NOW, id)
      redis.call('HSET', AFTER, '<' .. id, waits[n])
      for _, ref in ipairs(need) do add_dependent(ref, id) end
    else
      others.ids[#others.ids + 1], others.heads[#others.heads + 1] = id, j.heads[n]
    end
  end
  return others, any and waits or nil
end

local function retry(j)
  local taken = {} -- unique names that jobs of this slice took
  j = only(j, function(id, head)
    if not string.find(head, '\n', 1, true) then return nil end
    local expires = expiry(head)
    if expires and expires < NOW then
      return 'expired'
    end
    if not string.find(head, '\nu', 1, true) then return nil end
    local name = option(head, 'n')
    local twin = name and (taken[name] or name_holder(id, name))
    if twin then return 'unique_held ' .. twin end
    if name then
      taken[name] = id
      redis.call('HSET', UNIQUE, name, id)
    end
  end)
  if #j.ids == 0 then return j end
  local attempts = column(ATTEMPTS, j.ids)
  local events = column(ERROR, j.ids)
  local line = add_events(j.ids, 'retried', event, events)
  local others, waits = block_again(j, events) -- before the dependencies among them leave their list
  redis.call('ZREM', DEAD, unpack(j.ids))
  if #others.ids > 0 then append_to_ready(others) end
  local groups = attempts and uncount_dead(attempts)
  if attempts then redis.call('HDEL', ATTEMPTS, unpack(j.ids)) end
  return j, { attempts = attempts, line = line, groups = groups, waits = waits }
end

local function discard(j, state)
  if state == 'running' then return only(j, function() return 'wrong_state running' end) end
  local c = { heads = j.heads, body = column(BODY, j.ids), attempts = column(ATTEMPTS, j.ids),
    error = column(ERROR, j.ids), result = column(RESULT, j.ids), log = column(LOG, j.ids), waits = waits_of(j, state) }
  if LISTS[state] then redis.call('ZREM', LISTS[state], unpack(j.ids)) end
  -- The records of a dead letter that another program removed from the list are still counted.
  if c.attempts and (state == 'dead' or state == 'none') then c.groups = uncount_dead(c.attempts) end
  end_jobs(j, 'discarded')
  delete_records(j.ids)
  keep_removed(j.ids, j.heads, state == 'none' and {} or j.scores)
  count('n:discarded', #j.ids)
  return j, c
end

local function request_cancel(j)
  j = only(j, function(_, _, n) return not read_lease(j.leases[n]) and 'no_lease' or nil end)
  for n, id in ipairs(j.ids) do
    local _, _, flags = read_lease(j.leases[n])
    if not string.find(flags, 'c', 1, true) then
      redis.call('HSET', LEASE, id, flags == '' and j.leases[n] .. ' c' or j.leases[n] .. 'c')
    end
  end
  requested = requested + #j.ids
  return j, { leases = j.leases, stop = request_stop(j.leases) }
end

local function cancel(j, state)
  if state == 'running' then return request_cancel(j) end
  redis.call('ZREM', LISTS[state], unpack(j.ids))
  local c = { waits = waits_of(j, state), line = add_events(j.ids, 'cancelled', event, column(ERROR, j.ids)) }
  redis.call('ZADD', CANCELLED, unpack(each_score(j.ids, NOW)))
  count('n:cancelled', #j.ids)
  end_jobs(j, 'cancelled')
  return j, c
end

-- To `done` without a run: its dependents stop waiting.
local function complete(j, state)
  redis.call('ZREM', LISTS[state], unpack(j.ids))
  local c = { waits = waits_of(j, state), line = add_events(j.ids, 'completed', event, column(ERROR, j.ids)) }
  if state == 'dead' then
    c.attempts = column(ATTEMPTS, j.ids)
    c.groups = c.attempts and uncount_dead(c.attempts)
    redis.call('HDEL', ATTEMPTS, unpack(j.ids))
  end
  redis.call('ZADD', DONE, unpack(each_score(j.ids, NOW)))
  count('n:done', #j.ids)
  end_jobs(j, 'done')
  return j, c
end

local function run(j)
  redis.call('ZREM', DELAYED, unpack(j.ids))
  append_to_ready(j)
  return j, {}
end

local function reprioritise(j, state)
  local heads, z, version = {}, {}, next_version()
  for n, id in ipairs(j.ids) do
    local head = string.gsub(j.heads[n], '^(%d+) %d+', '%1 ' .. extra)
    heads[2 * n - 1], heads[2 * n] = id, with_version(head, version)
    z[2 * n - 1], z[2 * n] = tonumber(j.scores[n]) + (tonumber(extra) - priority_of(j.heads[n])) * BAND, id
  end
  redis.call('HSET', HEAD, unpack(heads))
  if state == 'ready' then redis.call('ZADD', READY, unpack(z)) end
  return j, { heads = j.heads, version = version }
end

local function take_from_worker(j)
  request_stop(j.leases)
  redis.call('ZREM', RUNNING, unpack(j.ids))
  redis.call('HDEL', LEASE, unpack(j.ids))
end

-- Back to its old place in `ready`. Its worker loses the lease: late results are refused.
local function requeue(j)
  j = only(j, function(_, _, n)
    local ms, _, flags = read_lease(j.leases[n])
    if not ms then return 'no_lease' end
    return string.find(flags, 'c', 1, true) and 'already_asked' or nil
  end)
  if #j.ids == 0 then return j end
  take_from_worker(j)
  add_events(j.ids, 'requeued', event, column(ERROR, j.ids))
  local z = {}
  for n, id in ipairs(j.ids) do z[2 * n - 1], z[2 * n] = select(2, read_lease(j.leases[n])), id end
  redis.call('ZADD', READY, unpack(z))
  return j, {}
end

local function bury_jobs(j, state)
  local c = { waits = waits_of(j, state), leases = j.leases }
  if state == 'running' then take_from_worker(j) else redis.call('ZREM', LISTS[state], unpack(j.ids)) end
  c.line = add_events(j.ids, 'buried', event, column(ERROR, j.ids))
  for n, id in ipairs(j.ids) do bury(id, j.heads[n], group) end
  return j, c
end

-- To another queue; or with `return` back from it: then the counters are as if it was never here.
local function move(j, state)
  j = only(j, function(id)
    return has_dependents and redis.call('HEXISTS', AFTER, '>' .. id) == 1 and 'others_wait' or nil
  end)
  if #j.ids == 0 then return j end
  local bodies, attempts, errors = column(BODY, j.ids) or {}, column(ATTEMPTS, j.ids) or {}, column(ERROR, j.ids) or {}
  for n, id in ipairs(j.ids) do
    redis.call('XADD', OUTBOX, '*', 'k', 'accept', 'q', extra, 'i', id, 's', state, 'c', j.scores[n], 'h', j.heads[n],
      'b', bodies[n] or '', 'a', attempts[n] or '', 'e', errors[n] or '', 'y', verb == 'return' and '1' or '')
    release_name(id, j.heads[n])
  end
  redis.call('ZREM', LISTS[state], unpack(j.ids))
  delete_records(j.ids)
  keep_removed(j.ids, j.heads, {})
  if verb == 'return' then count('n:enqueued', -#j.ids) else count('n:moved', #j.ids) end
  local versions = {}
  for n = 1, #j.ids do versions[n] = version_of(j.heads[n]) end
  return j, { target = extra, versions = versions }
end

local function edit(j, state)
  local before = ARGV[FIXED_ARGS + 3]
  j = only(j, function(id) return redis.call('HGET', BODY, id) ~= before and 'payload_changed' or nil end)
  if #j.ids == 0 then return j end
  local again, c = j, { line = '' }
  if state == 'dead' then
    again, c = retry(j)
    if #again.ids == 0 then return again end
  end
  c.heads, c.version = j.heads, next_version()
  redis.call('HSET', HEAD, j.ids[1], with_version(j.heads[1], c.version))
  redis.call('HSET', BODY, j.ids[1], extra)
  local line = add_events(j.ids, 'edited', string.sub(event, 1, -2) .. ',"original":' .. ARGV[FIXED_ARGS + 4] .. '}')
  c.line = c.line == '' and line or c.line .. '\n' .. line
  c.body = { before }
  return again, c
end

local function set_of(...)
  local found = {}
  for _, state in ipairs({ ... }) do found[state] = true end
  return found
end
local waiting = set_of('ready', 'delayed', 'blocked')
local verbs = {
  retry = { retry, set_of('dead') },
  discard = { discard },
  cancel = { cancel, LIVE },
  complete = { complete, set_of('ready', 'delayed', 'blocked', 'dead') },
  run = { run, set_of('delayed') },
  reprioritise = { reprioritise, waiting },
  requeue = { requeue, set_of('running') },
  bury = { bury_jobs, LIVE },
  move = { move, set_of('ready', 'delayed') },
  ['return'] = { move, set_of('ready', 'delayed') },
  edit = { edit, set_of('ready', 'delayed', 'blocked', 'dead') },
}

-- Applies the verb to jobs of one state. Returns the changed jobs and what undo needs of them.
local function process(state, j)
  if #j.ids == 0 then return j end
  if state == 'running' then j.leases = redis.call('HMGET', LEASE, unpack(j.ids)) end
  j.heads = redis.call('HMGET', HEAD, unpack(j.ids))
  local allowed = verbs[verb][2]
  if allowed and not allowed[state] then return only(j, function() return 'wrong_state ' .. state end) end
  if verb ~= 'discard' then
    j = only(j, function(_, head) return not head and 'no_record' or nil end)
  end
  -- An edit compares the payload itself.
  if j.versions and verb ~= 'edit' then
    j = only(j, function(_, head, n)
      return head and version_of(head) ~= j.versions[n] and 'changed' or nil
    end)
  end
  if #j.ids == 0 then return j end
  -- Jobs that leave `delayed` stop waiting there for a worker with their task.
  if state == 'delayed' and verb ~= 'reprioritise' and verb ~= 'edit' and redis.call('EXISTS', UNKNOWN_TASKS) == 1 then
    left_unknown = redis.call('ZREM', UNKNOWN_TASKS, unpack(j.ids)) > 0 or left_unknown
  end
  return verbs[verb][1](j, state)
end

-- A requeue cannot be undone, since its worker has lost the lease: only the ids are kept.
local function keep(n, skipped, columns)
  local slice = { v = verb, s = planned_state, n = n, t = STAMP, k = skipped, a = requested, c = columns }
  local packed = cmsgpack.pack(slice)
  local sums = redis.call('HMGET', UNDO, 'slices', 'bytes', 'applied', 'undoable')
  local slices, bytes = (whole(sums[1]) or 0) + 1, whole(sums[2]) or 0
  local fits = bytes + #packed <= keep_bytes
  if not fits then
    slice.c = nil
    packed = cmsgpack.pack(slice)
  end
  local applied, undoable = n - #skipped / 2, fits and verb ~= 'requeue'
  redis.call(
    'HSET', UNDO, offset, packed, '#' .. slices, offset, 'slices', slices, 'bytes', bytes + #packed,
    'applied', (whole(sums[3]) or 0) + applied, 'undoable', (whole(sums[4]) or 0) + (undoable and applied or 0)
  )
  redis.call('PEXPIRE', UNDO, keep_ms)
  return undoable and 1 or 0
end

local function finish(n, columns)
  local skipped = {}
  for i = 1, n do
    if reasons[i] then
      skipped[#skipped + 1] = i - 1
      skipped[#skipped + 1] = reasons[i]
    end
  end
  local kept = offset ~= '' and keep(n, skipped, columns) or 0
  if affected then keep_affected() end
  if left_unknown then save_unknown(read_unknown(redis.call('HGET', META, 'unknown_tasks'))) end
  if redis.call('ZCARD', READY) > 0 then wake() end
  save_counts()
  return answer(n, kept, requested, skipped)
end

-- Each entry by itself, in its current state.
if planned_state == '*' then
  for i = 1, entries do
    local id, version = ARGV[FIXED_ARGS - 1 + 2 * i], ARGV[FIXED_ARGS + 2 * i]
    local state, score = state_of(id)
    if not state then
      reasons[i] = 'gone'
    elseif version ~= '' and version ~= state then
      reasons[i] = 'moved ' .. state
    else
      local before = requested
      process(state, { i = { i }, ids = { id }, scores = { string.format('%.0f', score) } })
      if requested > before then reasons[i] = 'requested' end
    end
  end
  return finish(entries, nil)
end

BATCH = string.sub(UNDO, #QUEUE + 9)
affected = { died = {}, continued = {}, queues = {} }
local ids = {}
for i = 1, (verb == 'edit' and 1 or entries) do ids[i] = ARGV[FIXED_ARGS - 1 + 2 * i] end
local n = within(ids)
-- `none`: what is kept for a job that is in no state.
local list = LISTS[planned_state]
local scores = list and redis.call('ZMSCORE', list, unpack(ids)) or {}
local leases = planned_state == 'running' and redis.call('HMGET', LEASE, unpack(ids)) or nil
local j = { i = {}, ids = {}, scores = {}, versions = waiting[planned_state] and {} or nil }
for i = 1, n do
  local planned, same, version = ARGV[FIXED_ARGS + 2 * i], false, ''
  if j.versions and string.find(planned, ' ', 1, true) then planned, version = string.match(planned, '^(%S+) (.*)$') end
  if not list then
    same = not state_of(ids[i])
  elseif leases then
    same = scores[i] and leases[i] and string.sub(leases[i], 1, #planned + 1) == planned .. ' '
  else
    same = scores[i] and (scores[i] == planned or tonumber(scores[i]) == tonumber(planned))
  end
  if planned == ID_TAKEN then
    reasons[i] = 'already_there ' .. extra
  elseif same then
    local to = #j.ids + 1
    j.i[to], j.ids[to], j.scores[to] = i, ids[i], planned
    if j.versions then j.versions[to] = version end
  elseif scores[i] then
    reasons[i] = planned_state == 'running' and 'runs_anew' or 'changed'
  else
    local state = state_of(ids[i])
    reasons[i] = state and 'moved ' .. state or 'gone'
  end
end
local done, columns = process(planned_state, j)
columns = columns or {}
columns.ids, columns.scores = done.ids, done.scores
return finish(n, columns)
