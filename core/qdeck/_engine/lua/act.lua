#!lua flags=allow-oom
-- What an operator does to a slice of jobs, each only if it is as it was seen, and in the same step what it takes to
-- undo it. Sent twice it is done once: what is kept for the slice answers the second call.
-- keys: meta ready delayed blocked running dead done cancelled removed head body lease attempts error result log unique groups after unknown_tasks wakeup outbox stop_requests undo
-- uses: rights time open constants whole count head versions attempts lease note free place forget removed groups handler ended wake tally states holder columns annotate fallen stop_requests unknown_tasks
-- args: now, verb, state seen (`*`: each entry names its own, or ''), offset of the slice in its plan ('': nothing is
--       kept), most bytes kept for the batch, ms to keep, event, extra, bytes read at most, class and shape of the
--       message for the groups of dead letters ('': a fixed one), then per entry: id, what was
--       seen of it (its score, and behind a blank its version if it waits and has one; of a running job its token); for
--       `edit` the payload seen and how its events tell it follow
-- extra: reprioritise: priority · move, return: queue · edit: payload
-- kept in `undo`: offset → the slice (msgpack: v verb, s state, n entries, t when, k skipped, a requested, c columns),
--       `#number` → offset, `slices`, `bytes`; and what became of dependents, as the piece `fallen` tells
-- With `*` nothing is kept, and a running job that will be told is among the skipped, as `requested`.
-- reply: now, how many entries were looked at (the rest is for the next call), 1 if undo is kept, how many cancels were requested,
--        entries in the outbox, bytes kept of the batch, then index (from 0) and reason of each that was skipped: a code, and behind a blank its data
local verb, seen_state, offset, event, extra = ARGV[2], ARGV[3], ARGV[4], ARGV[7], ARGV[8]
local keep_bytes, keep_ms, most_bytes = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[9])
local group = ARGV[10] ~= '' and ARGV[10] or 'Buried\nby an operator'
local BEFORE = 10
local ID_TAKEN = '!' -- seen of a job whose id is taken in the queue that it would be moved to
local entries = math.floor((#ARGV - BEFORE) / 2)
if entries > 500 then return redis.error_reply('QDECK ACT on too many entries for one call') end

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
      return redis.error_reply('QDECK ACT: what is kept of this slice cannot be read')
    end
    if kept.u then return redis.error_reply('QDECK UNDONE') end
    return answer(kept.n, kept.c and verb ~= 'requeue' and 1 or 0, kept.a, kept.k)
  end
end

local why, requested = {}, 0 -- by index of the entry
local left_unknown = false -- whether a job left that waited for a worker that knows its task
local touches_others = redis.call('HLEN', AFTER) > 0

-- How many of the jobs this call looks at: as many as have no more than `most_bytes` of values to read, at least one.
-- Lengths are read first, because small values prove nothing about the next one.
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

-- Keeps the jobs of `j` for which `test` gives no reason against.
local function only(j, test)
  local refused = 0
  for n, id in ipairs(j.ids) do
    local reason = test(id, j.heads[n], n)
    if reason then
      why[j.i[n]] = reason
      refused = refused + 1
    end
  end
  if refused == 0 then return j end
  local kept = { i = {}, ids = {}, scores = {}, heads = {}, leases = j.leases and {} or nil }
  for n, id in ipairs(j.ids) do
    if not why[j.i[n]] then
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

-- At the end of their turn: `ready` behind their equals.
local function line_up(j)
  local z = {}
  for n, id in ipairs(j.ids) do z[2 * n - 1], z[2 * n] = priority_of(j.heads[n]) * BAND + NOW, id end
  redis.call('ZADD', READY, unpack(z))
end

-- What the jobs wait for, which goes with them.
local function waits_of(j, state)
  if state ~= 'blocked' then return nil end
  local fields = {}
  for n, id in ipairs(j.ids) do fields[n] = '<' .. id end
  local refs = column(AFTER, fields)
  redis.call('HDEL', AFTER, unpack(fields))
  return refs
end

local function tell(j, outcome)
  for n, id in ipairs(j.ids) do
    if j.heads[n] then free(id, j.heads[n]) end
  end
  if not touches_others then return end
  for _, id in ipairs(j.ids) do ended(id, outcome) end
end

local function retry(j)
  local taken = {} -- names that jobs of this slice took just now
  j = only(j, function(id, head)
    if not string.find(head, '\n', 1, true) then return nil end
    local expires = expiry(head)
    if expires and expires < NOW then
      return 'expired'
    end
    if not string.find(head, '\nu', 1, true) then return nil end
    local name = option(head, 'n')
    local twin = name and (taken[name] or twin_of(id, name))
    if twin then return 'unique_held ' .. twin end
    if name then
      taken[name] = id
      redis.call('HSET', UNIQUE, name, id)
    end
  end)
  if #j.ids == 0 then return j end
  local attempts = column(ATTEMPTS, j.ids)
  local line = annotate(j.ids, 'retried', event, column(ERROR, j.ids))
  redis.call('ZREM', DEAD, unpack(j.ids))
  line_up(j)
  local groups = attempts and leave(attempts)
  if attempts then redis.call('HDEL', ATTEMPTS, unpack(j.ids)) end
  return j, { attempts = attempts, line = line, groups = groups }
end

local function discard(j, state)
  if state == 'running' then return only(j, function() return 'wrong_state running' end) end
  local c = { heads = j.heads, body = column(BODY, j.ids), attempts = column(ATTEMPTS, j.ids),
    error = column(ERROR, j.ids), result = column(RESULT, j.ids), log = column(LOG, j.ids), waits = waits_of(j, state) }
  if LISTS[state] then redis.call('ZREM', LISTS[state], unpack(j.ids)) end
  -- What is left of a dead letter that somebody took off the list is counted still.
  if c.attempts and (state == 'dead' or state == 'none') then c.groups = leave(c.attempts) end
  tell(j, 'discarded')
  forget(j.ids)
  keep_removed(j.ids, j.heads, state == 'none' and {} or j.scores)
  count('n:discarded', #j.ids)
  return j, c
end

local function ask(j)
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
  if state == 'running' then return ask(j) end
  redis.call('ZREM', LISTS[state], unpack(j.ids))
  local c = { waits = waits_of(j, state), line = annotate(j.ids, 'cancelled', event, column(ERROR, j.ids)) }
  redis.call('ZADD', CANCELLED, unpack(each_score(j.ids, NOW)))
  count('n:cancelled', #j.ids)
  tell(j, 'cancelled')
  return j, c
end

local function run(j)
  redis.call('ZREM', DELAYED, unpack(j.ids))
  line_up(j)
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

local function take(j)
  request_stop(j.leases)
  redis.call('ZREM', RUNNING, unpack(j.ids))
  redis.call('HDEL', LEASE, unpack(j.ids))
end

-- Back to its old place in the line. Its owner has lost the lease: what it says about the job is refused.
local function requeue(j)
  j = only(j, function(_, _, n)
    local ms, _, flags = read_lease(j.leases[n])
    if not ms then return 'no_lease' end
    return string.find(flags, 'c', 1, true) and 'already_asked' or nil
  end)
  if #j.ids == 0 then return j end
  take(j)
  annotate(j.ids, 'requeued', event, column(ERROR, j.ids))
  local z = {}
  for n, id in ipairs(j.ids) do z[2 * n - 1], z[2 * n] = select(2, read_lease(j.leases[n])), id end
  redis.call('ZADD', READY, unpack(z))
  return j, {}
end

local function to_grave(j, state)
  local c = { waits = waits_of(j, state), leases = j.leases }
  if state == 'running' then take(j) else redis.call('ZREM', LISTS[state], unpack(j.ids)) end
  c.line = annotate(j.ids, 'buried', event, column(ERROR, j.ids))
  for n, id in ipairs(j.ids) do bury(id, j.heads[n], group) end
  return j, c
end

-- To another queue, or with `return` back from it: then it was never here, and the counters say so.
local function move(j, state)
  j = only(j, function(id)
    return touches_others and redis.call('HEXISTS', AFTER, '>' .. id) == 1 and 'others_wait' or nil
  end)
  if #j.ids == 0 then return j end
  local bodies, attempts, errors = column(BODY, j.ids) or {}, column(ATTEMPTS, j.ids) or {}, column(ERROR, j.ids) or {}
  for n, id in ipairs(j.ids) do
    redis.call('XADD', OUTBOX, '*', 'k', 'accept', 'q', extra, 'i', id, 's', state, 'c', j.scores[n], 'h', j.heads[n],
      'b', bodies[n] or '', 'a', attempts[n] or '', 'e', errors[n] or '', 'y', verb == 'return' and '1' or '')
    free(id, j.heads[n])
  end
  redis.call('ZREM', LISTS[state], unpack(j.ids))
  forget(j.ids)
  keep_removed(j.ids, j.heads, {})
  if verb == 'return' then count('n:enqueued', -#j.ids) else count('n:moved', #j.ids) end
  local versions = {}
  for n = 1, #j.ids do versions[n] = version_of(j.heads[n]) end
  return j, { target = extra, versions = versions }
end

local function edit(j, state)
  local before = ARGV[BEFORE + 3]
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
  local line = annotate(j.ids, 'edited', string.sub(event, 1, -2) .. ',"original":' .. ARGV[BEFORE + 4] .. '}')
  c.line = c.line == '' and line or c.line .. '\n' .. line
  c.body = { before }
  return again, c
end

local function among(...)
  local found = {}
  for _, state in ipairs({ ... }) do found[state] = true end
  return found
end
local waiting = among('ready', 'delayed', 'blocked')
local verbs = {
  retry = { retry, among('dead') },
  discard = { discard },
  cancel = { cancel, LIVE },
  run = { run, among('delayed') },
  reprioritise = { reprioritise, waiting },
  requeue = { requeue, among('running') },
  bury = { to_grave, LIVE },
  move = { move, among('ready', 'delayed') },
  ['return'] = { move, among('ready', 'delayed') },
  edit = { edit, among('ready', 'delayed', 'blocked', 'dead') },
}

-- Does it to those of one state, entry `i` and on. Returns the jobs that it was done to and what undo needs of them.
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
  -- Those that leave `delayed` do not wait there for a worker that knows their task any more.
  if state == 'delayed' and verb ~= 'reprioritise' and verb ~= 'edit' and redis.call('EXISTS', UNKNOWN_TASKS) == 1 then
    left_unknown = redis.call('ZREM', UNKNOWN_TASKS, unpack(j.ids)) > 0 or left_unknown
  end
  return verbs[verb][1](j, state)
end

-- A requeue cannot be taken back, its owner has lost the lease for good: what is kept tells only of which jobs.
local function keep(n, skipped, columns)
  local slice = { v = verb, s = seen_state, n = n, t = STAMP, k = skipped, a = requested, c = columns }
  local packed = cmsgpack.pack(slice)
  local sums = redis.call('HMGET', UNDO, 'slices', 'bytes')
  local slices, bytes = (whole(sums[1]) or 0) + 1, whole(sums[2]) or 0
  local fits = bytes + #packed <= keep_bytes
  if not fits then
    slice.c = nil
    packed = cmsgpack.pack(slice)
  end
  redis.call('HSET', UNDO, offset, packed, '#' .. slices, offset, 'slices', slices, 'bytes', bytes + #packed)
  redis.call('PEXPIRE', UNDO, keep_ms)
  return fits and verb ~= 'requeue' and 1 or 0
end

local function finish(n, columns)
  local skipped = {}
  for i = 1, n do
    if why[i] then
      skipped[#skipped + 1] = i - 1
      skipped[#skipped + 1] = why[i]
    end
  end
  local kept = offset ~= '' and keep(n, skipped, columns) or 0
  if fallen then keep_fallen() end
  if left_unknown then save_unknown(read_unknown(redis.call('HGET', META, 'unknown_tasks'))) end
  if redis.call('ZCARD', READY) > 0 then wake() end
  tally()
  return answer(n, kept, requested, skipped)
end

-- Each entry by itself, in whatever state it is.
if seen_state == '*' then
  for i = 1, entries do
    local id, seen = ARGV[BEFORE - 1 + 2 * i], ARGV[BEFORE + 2 * i]
    local state, score = state_of(id)
    if not state then
      why[i] = 'gone'
    elseif seen ~= '' and seen ~= state then
      why[i] = 'moved ' .. state
    else
      local before = requested
      process(state, { i = { i }, ids = { id }, scores = { string.format('%.0f', score) } })
      if requested > before then why[i] = 'requested' end
    end
  end
  return finish(entries, nil)
end

BATCH = string.sub(UNDO, #QUEUE + 9)
fallen = { fall = {}, go = {}, told = {} }
local ids = {}
for i = 1, (verb == 'edit' and 1 or entries) do ids[i] = ARGV[BEFORE - 1 + 2 * i] end
local n = within(ids)
-- `none`: what is kept for a job that is in no state.
local list = LISTS[seen_state]
local scores = list and redis.call('ZMSCORE', list, unpack(ids)) or {}
local leases = seen_state == 'running' and redis.call('HMGET', LEASE, unpack(ids)) or nil
local j = { i = {}, ids = {}, scores = {}, versions = waiting[seen_state] and {} or nil }
for i = 1, n do
  local seen, same, version = ARGV[BEFORE + 2 * i], false, ''
  if j.versions and string.find(seen, ' ', 1, true) then seen, version = string.match(seen, '^(%S+) (.*)$') end
  if not list then
    same = not state_of(ids[i])
  elseif leases then
    same = scores[i] and leases[i] and string.sub(leases[i], 1, #seen + 1) == seen .. ' '
  else
    same = scores[i] and (scores[i] == seen or tonumber(scores[i]) == tonumber(seen))
  end
  if seen == ID_TAKEN then
    why[i] = 'already_there ' .. extra
  elseif same then
    local to = #j.ids + 1
    j.i[to], j.ids[to], j.scores[to] = i, ids[i], seen
    if j.versions then j.versions[to] = version end
  elseif scores[i] then
    why[i] = seen_state == 'running' and 'runs_anew' or 'changed'
  else
    local state = state_of(ids[i])
    why[i] = state and 'moved ' .. state or 'gone'
  end
end
local done, columns = process(seen_state, j)
columns = columns or {}
columns.ids, columns.scores = done.ids, done.scores
return finish(n, columns)
