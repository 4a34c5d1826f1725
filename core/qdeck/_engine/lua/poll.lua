#!lua flags=allow-oom
-- A worker's poll: reports ended jobs and claims the next ones. Sent twice with the same number it is done once, and
-- the second call gets the reply of the first.
-- keys: meta ready delayed blocked running dead done cancelled removed head body lease attempts error result log claims unique groups after unknown_tasks wakeup outbox
-- uses: time constants whole count head attempts lease event release_name put_waiting delete_records removed groups handler dependents drop_missing wake first trim save_counts unknown_tasks
-- args: now, worker, number of the poll, free slots, lease ms, count of plain acks, crash limit,
--       tasks that some worker refused, a line each: `+task` when this worker has it, `-task` when it has not,
--       per plain ack: id, token; then per other ending: kind, id, token, delay ms, event, log, result, keep ms,
--       and the signature of its failure (or '')
-- A token is `worker:number ` of the poll that claimed the job, with its blank.
-- kinds: done · failed timeout (delay -1: bury) · crashed · give (back, not counted) · cancelled
--        unknown (its worker lacks the task: delayed, not counted)
-- reply: now, wait ms (limits), next due or 0, next lease deadline or 0, entries in the outbox, refused ids, rows of
--        id, head, body, attempts; and META `unknown_tasks`
local meta = redis.call('HMGET', META, 'v', 'paused', 'limit', 'rate', 'tat', 'done_ttl', 'done_max', 'unknown_tasks')
if meta[1] ~= LAYOUT then
  return redis.error_reply(meta[1] and 'QDECK VERSION ' .. meta[1] .. ' ' .. LAYOUT or 'QDECK FRESH')
end
local worker, number = ARGV[2], ARGV[3]
-- More would overflow `unpack` after the first write.
if #ARGV > 7000 then return redis.error_reply('QDECK POLL with too many endings for one call') end
local free_slots, lease_ms, acks = math.min(tonumber(ARGV[4]), 500), tonumber(ARGV[5]), tonumber(ARGV[6])
local crash_limit = tonumber(ARGV[7])
local token = worker .. ':' .. number .. ' '
local refused, rows, claimed = {}, {}, {}
local unknown = meta[8] and read_unknown(meta[8]) -- tasks that a worker refused; nil when there are none
local delayed_unknown = 0

local again = false -- whether there are more jobs to claim than this call may read

local function answer(wait, full)
  local due, deadline = 0, 0
  if not full then
    due, deadline = again and NOW or first_at(DELAYED), next_lease_check()
  end
  return { NOW, wait, due, deadline, redis.call('XLEN', OUTBOX), refused, rows, meta[8] or '' }
end

-- Payloads, a few at a time, up to the size of one reply: the whole server waits for a call. At least the first is
-- read, and at most seven more than fit.
local MAX_BYTES = 2097152
local bytes = 0
local function bodies_of(ids)
  local all, step = {}, 1
  while #all < #ids and bytes < MAX_BYTES do
    for _, body in ipairs(redis.call('HMGET', BODY, unpack(ids, #all + 1, math.min(#all + step, #ids)))) do
      all[#all + 1] = body
      if body then bytes = bytes + #body end
    end
    step = math.min(step * 2, 8)
  end
  return all
end

local function add_rows(ids, heads, bodies)
  local attempts = redis.call('HLEN', ATTEMPTS) > 0 and redis.call('HMGET', ATTEMPTS, unpack(ids)) or {}
  local n = #rows
  for i, id in ipairs(ids) do
    rows[n + 1], rows[n + 2], rows[n + 3], rows[n + 4] = id, heads[i], bodies[i], attempts[i] or ''
    n = n + 4
  end
end

-- The same poll again gets the first reply. An earlier poll that arrives late, because its call was sent twice, claims
-- nothing: its caller has gone on, and no worker would hold the jobs.
local last = redis.call('HGET', CLAIMS, worker)
if last then
  local done, missed, ids = string.match(last, '^(%d+)\n([^\n]*)\n([^\n]*)')
  done = done and #done <= 18 and done or '0' -- it cannot be read: as if there were none
  if done == number then
    for id in string.gmatch(missed, '%S+') do refused[#refused + 1] = id end
    for id in string.gmatch(ids, '%S+') do
      if #claimed < 500 then claimed[#claimed + 1] = id end
    end
    local held = {}
    local leases = #claimed > 0 and redis.call('HMGET', LEASE, unpack(claimed)) or {}
    for i, id in ipairs(claimed) do
      if leases[i] and string.sub(leases[i], 1, #token) == token then held[#held + 1] = id end
    end
    if #held > 0 then add_rows(held, redis.call('HMGET', HEAD, unpack(held)), redis.call('HMGET', BODY, unpack(held))) end
    return answer(0, false)
  end
  if tonumber(done) > tonumber(number) then return answer(0, false) end
end

local finished = {}

-- 1. jobs that succeeded and left nothing to keep
if acks > 0 then
  local ids = {}
  for i = 1, acks do ids[i] = ARGV[7 + 2 * i] end
  local leases = redis.call('HMGET', LEASE, unpack(ids))
  for i = 1, acks do
    local held, mine = leases[i], ARGV[8 + 2 * i]
    if held and string.sub(held, 1, #mine) == mine then
      finished[#finished + 1] = ids[i]
    else
      refused[#refused + 1] = ids[i]
    end
  end
end

-- 2. the others, one by one. A job is removed from `running` last: if a key has a foreign type, the job is then in two
-- states, which the next sweep repairs, and never in none.
local function remove_running(id)
  redis.call('ZREM', RUNNING, id)
  redis.call('HDEL', LEASE, id)
end

local function cancel(id, head, event)
  add_event(id, 'cancelled', event)
  redis.call('ZADD', CANCELLED, NOW, id)
  count('n:cancelled', 1)
  release_name(id, head)
  resolve_dependents(id, 'cancelled')
  remove_running(id)
end

local function fail(kind, id, head, delay, event, group)
  add_event(id, kind, event)
  count('n:failed', 1)
  local attempts, crashes, outages, broken = attempts_of(id)
  set_attempts(id, attempts + 1, crashes, outages)
  if broken then
    bury_unreadable(id, head, 'attempts')
  elseif delay >= 0 and attempts < retries_of(head) then
    count('n:retried', 1)
    put_waiting(id, head, NOW + delay)
  else
    bury(id, head, group)
  end
  remove_running(id)
end

local function crash(id, head, event, group)
  add_event(id, 'crashed', event)
  count('n:crashed', 1)
  local attempts, crashes, outages, broken = attempts_of(id)
  set_attempts(id, attempts, crashes + 1, outages)
  if broken then
    bury_unreadable(id, head, 'attempts')
  elseif crashes + 1 >= crash_limit then
    bury(id, head, group)
  else
    put_waiting(id, head, NOW)
  end
  remove_running(id)
end

local function finish_with(id, log, result, keep)
  if log ~= '' then redis.call('HSET', LOG, id, log) end
  if result ~= '' then redis.call('HSET', RESULT, id, result) end
  local ttl = whole(meta[6]) or 3600000
  if tonumber(keep) > ttl then
    meta[6] = keep
    redis.call('HSET', META, 'done_ttl', keep)
  end
  finished[#finished + 1] = id
end

local function close(kind, id, held, mine, delay, event, log, result, keep, group)
  local head = redis.call('HGET', HEAD, id) or '0 100 0 ?'
  local cancel_requested = string.find(held, 'c', #mine, true)
  if kind == 'done' then
    finish_with(id, log, result, keep)
    return
  end
  if log ~= '' then redis.call('HSET', LOG, id, log) end
  if kind == 'cancelled' or cancel_requested then
    cancel(id, head, kind == 'cancelled' and event or '{"reason":"requested while it ran"}')
  elseif kind == 'crashed' then
    crash(id, head, event, group ~= '' and group or 'WorkerCrashed\nits worker died with it')
  elseif kind == 'give' then
    local _, score = read_lease(held)
    redis.call('ZADD', READY, score or priority_of(head) * BAND + NOW, id)
    remove_running(id)
  elseif kind == 'unknown' then
    unknown = unknown or {}
    delay_unknown(id, head, unknown, worker)
    delayed_unknown = delayed_unknown + 1
    remove_running(id)
  else
    fail(kind, id, head, tonumber(delay), event, group ~= '' and group or 'unknown\n')
  end
end

for i = 9 + 2 * acks, #ARGV, 9 do
  local id, mine = ARGV[i + 1], ARGV[i + 2]
  local held = redis.call('HGET', LEASE, id)
  if held and string.sub(held, 1, #mine) == mine then
    close(ARGV[i], id, held, mine, ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], ARGV[i + 7], ARGV[i + 8])
  else
    refused[#refused + 1] = id
  end
end

if #finished > 0 then
  local n, z = #finished, {}
  for i, id in ipairs(finished) do
    z[2 * i - 1], z[2 * i] = NOW, id
  end
  redis.call('ZADD', DONE, unpack(z))
  redis.call('ZREM', RUNNING, unpack(finished))
  redis.call('HDEL', LEASE, unpack(finished))
  count('n:done', n)
  if redis.call('HLEN', UNIQUE) > 0 then
    local heads = redis.call('HMGET', HEAD, unpack(finished))
    for i, id in ipairs(finished) do
      if heads[i] then release_name(id, heads[i]) end
    end
  end
  if redis.call('HLEN', AFTER) > 0 then
    for _, id in ipairs(finished) do resolve_dependents(id, 'done') end
  end
  -- The last ones keep their records, those before them the id and the result, until no call can be sent again.
  local most = whole(meta[7]) or 1000
  delete_records(redis.call('ZREVRANGE', DONE, most, most + n - 1), true)
  trim(DONE, whole(meta[6]) or 3600000, most, RESEND_MS, 'n:dropped_done', n + SLICE)
end
if #refused > 0 then count('n:refused', #refused) end

-- 3. delayed jobs that are due go to `ready`
-- Returns true when more are due than one call moves.
local function promote()
  local due = redis.call('ZRANGEBYSCORE', DELAYED, '-inf', STAMP, 'WITHSCORES', 'LIMIT', 0, 1000)
  if #due == 0 then return false end
  local ids, z = {}, {}
  for i = 1, #due, 2 do ids[#ids + 1] = due[i] end
  local heads = redis.call('HMGET', HEAD, unpack(ids))
  for i, id in ipairs(ids) do
    if heads[i] and id ~= '' then
      z[#z + 1] = priority_of(heads[i]) * BAND + math.max(tonumber(due[2 * i]), 0)
      z[#z + 1] = id
    else
      drop_missing(id)
    end
  end
  redis.call('ZREM', DELAYED, unpack(ids))
  if unknown then redis.call('ZREM', UNKNOWN_TASKS, unpack(ids)) end
  if #z > 0 then redis.call('ZADD', READY, unpack(z)) end
  return #ids == 1000 and redis.call('ZCOUNT', DELAYED, '-inf', STAMP) > 0
end

-- Reads which of the refused tasks this worker has. Up to `most` of their jobs are ready at once, in the order in which
-- they were enqueued, and claimed in this call, before other workers refuse them.
local not_here = {}
local function promote_known(most)
  for sign, task in string.gmatch(ARGV[8], '([+-])([^\n]*)') do
    local slot = unknown[task] and unknown[task].slot
    if sign == '-' then
      not_here[task] = true
    elseif slot and most > 0 then
      local first, last = string.format('%.0f', slot * BAND), string.format('(%.0f', (slot + 1) * BAND)
      local found = redis.call('ZRANGEBYSCORE', UNKNOWN_TASKS, first, last, 'WITHSCORES', 'LIMIT', 0, most)
      local ids, z = {}, {}
      for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
      if #ids > 0 then
        local dues, heads = redis.call('ZMSCORE', DELAYED, unpack(ids)), redis.call('HMGET', HEAD, unpack(ids))
        redis.call('ZREM', UNKNOWN_TASKS, unpack(ids))
        for i, id in ipairs(ids) do
          if dues[i] and heads[i] and tonumber(dues[i]) == tonumber(found[2 * i]) - slot * BAND then
            redis.call('ZREM', DELAYED, id)
            z[#z + 1] = priority_of(heads[i]) * BAND + (whole(string.match(heads[i], '^%d+')) or 0)
            z[#z + 1] = id
          end
        end
        if #z > 0 then redis.call('ZADD', READY, unpack(z)) end
        most = most - #z / 2
      end
    end
  end
end

-- How many jobs may start: the free slots of the worker, within the limits of the queue.
local wait = 0
local limit = whole(meta[3]) -- one that cannot be read is ignored
-- The rate is used up to a moment: whole milliseconds, and a rest in parts of `starts` so that nothing is rounded.
local starts, per, used, rest
local function allowed()
  if meta[2] then return 0 end
  local most = free_slots
  if limit then most = math.min(most, limit - redis.call('ZCARD', RUNNING)) end
  starts, per = string.match(meta[4] or '', '^(%d+) (%d+)$')
  starts, per = whole(starts), whole(per)
  if starts and per and starts > 0 and per > 0 then -- a rate that cannot be read is ignored
    used, rest = string.match(meta[5] or '', '^(%d+) (%d+)$')
    used, rest = whole(used) or 0, math.min(whole(rest) or 0, starts)
    if used < NOW then used, rest = NOW, 0 end
    -- No more than one period ahead: the clock was set back, or the rate was another.
    if used > NOW + per then
      used, rest = NOW + per, 0
      redis.call('HSET', META, 'tat', string.format('%.0f 0', used))
    end
    local left = math.floor(((per - (used - NOW)) * starts - rest) / per)
    if left < most then
      most = left
      wait = math.ceil(((left + 1) * per + rest) / starts) + used - per - NOW
    end
  end
  return most
end

local function expire(id, head)
  add_event(id, 'expired', '{"reason":"expired"}')
  redis.call('ZADD', CANCELLED, NOW, id)
  count('n:expired', 1)
  release_name(id, head)
  resolve_dependents(id, 'cancelled')
end

-- Claims up to `most` jobs from `ready`, drops jobs without a record, and cancels expired ones.
local function claim(most)
  local z = redis.call('ZPOPMIN', READY, most)
  if #z == 0 then return false end
  local ids = {}
  for i = 1, #z, 2 do ids[#ids + 1] = z[i] end
  local heads = redis.call('HMGET', HEAD, unpack(ids))
  local running, leases, taken, found = {}, {}, {}, {}
  local deadline, prefix = NOW + lease_ms, token .. STAMP .. ' '
  for i, id in ipairs(ids) do
    local head = heads[i]
    local special = head and string.find(head, '\n', 1, true)
    local expires = special and expiry(head)
    if not head or id == '' then
      drop_missing(id)
    elseif expires and expires < NOW then
      expire(id, head)
    elseif unknown and not_here[task_of(head)] then
      delay_unknown(id, head, unknown, worker)
      delayed_unknown = delayed_unknown + 1
    else
      local own, n = special and whole(option(head, 'l')), #taken + 1
      taken[n], found[n] = id, head
      running[2 * n - 1], running[2 * n] = own and NOW + own or deadline, id
      leases[2 * n - 1], leases[2 * n] = id, prefix .. (own and string.format('%.0f', own) or lease_ms) .. ' ' .. z[2 * i]
    end
  end
  if #taken == 0 then return true end
  local bodies = bodies_of(taken)
  for n = #taken, #bodies + 1, -1 do -- back to its place: the next call claims it
    redis.call('ZADD', READY, string.match(leases[2 * n], '%S+$'), taken[n])
    taken[n], running[2 * n], running[2 * n - 1], leases[2 * n], leases[2 * n - 1] = nil, nil, nil, nil, nil
    again = true
  end
  if #taken == 0 then return false end
  for _, id in ipairs(taken) do claimed[#claimed + 1] = id end
  redis.call('ZADD', RUNNING, unpack(running))
  redis.call('HSET', LEASE, unpack(leases))
  add_rows(taken, found, bodies)
  return not again
end

local most = 0
if free_slots > 0 then
  local more = promote()
  most = allowed()
  if unknown then promote_known(most) end
  -- Due jobs that are not in `ready` yet may have any priority: until then only jobs of the first priority are next.
  if more and most > 0 then
    most, again = math.min(most, redis.call('ZCOUNT', READY, '-inf', '(' .. string.format('%.0f', BAND))), true
  end
  -- Dropped and delayed jobs leave slots to others, within bounds.
  for _ = 1, next(not_here) and 20 or 3 do
    if #claimed >= most or not claim(most - #claimed) then break end
  end
  if used and #claimed > 0 then
    rest = rest + per * #claimed
    redis.call('HSET', META, 'tat', string.format('%.0f %.0f', used + math.floor(rest / starts), rest % starts))
  end
end

-- An id with a line break is of another program, and would hide the ids after it.
local function line(ids)
  local text = table.concat(ids, ' ')
  return string.find(text, '\n', 1, true) and string.gsub(text, '\n', '') or text
end
redis.call('HSET', CLAIMS, worker, number .. '\n' .. line(refused) .. '\n' .. line(claimed) .. '\n' .. STAMP)
if redis.call('ZCARD', READY) > 0 and not meta[2] and wait == 0
  and not (limit and redis.call('ZCARD', RUNNING) >= limit) then
  wake()
end
if unknown then
  meta[8] = save_unknown(unknown)
  -- One of the other workers may have the task.
  if delayed_unknown > 0 then
    for _ = redis.call('LLEN', WAKEUP) + 1, math.min(redis.call('HLEN', CLAIMS) - 1, 50) do redis.call('LPUSH', WAKEUP, '1') end
  end
end
save_counts()
return answer(wait, free_slots > 0 and #claimed >= free_slots)
