-- Pieces shared by the scripts. A script names its pieces in its `uses:` line and the loader puts them before it,
-- in the order of this file. A piece uses the keys that the script declares (META, READY, …), NOW (milliseconds,
-- a number) and STAMP (the same as text).

--- time
-- The server's clock. Only tests pass a time of their own.
local NOW = tonumber(ARGV[1])
if NOW == 0 then
  local t = redis.call('TIME')
  NOW = t[1] * 1000 + math.floor(t[2] / 1000)
end
local STAMP = string.format('%.0f', NOW)

--- open
-- A new queue is created by init.lua first; one of another layout version is left alone.
local version = redis.call('HGET', META, 'v')
if version ~= LAYOUT then
  return redis.error_reply(version and 'QDECK VERSION ' .. version .. ' ' .. LAYOUT or 'QDECK FRESH')
end

--- constants
local BAND = 10000000000000 -- one step of priority in the score of `ready`
local LAST_PRIORITY = 899            -- the last priority
local MAX_TIME_MS = 1000000000000000 -- no stored time is so late
local SLICE = 200           -- dependents and entries that one call changes
local BYTES_PER_ENTRY = 5000         -- bytes that take as long as one more entry
local RESEND_MS = 60000        -- how long an enqueue may be sent again, so its id is kept

--- too_old
-- Whether what a client read is too old to act on: another may have acted since, and the trace of that may be gone.
-- Half of RESEND_MS: the clocks of two servers of a cluster may differ by the other half.
local function is_too_old(read_at)
  return tonumber(read_at) > 0 and NOW - tonumber(read_at) > RESEND_MS / 2
end

--- was_removed
-- Whether a job with this id was removed so recently that its enqueue may be sent again.
local function was_removed(id)
  local at = redis.call('ZSCORE', REMOVED, id)
  return at and tonumber(at) > NOW - RESEND_MS
end

--- whole
-- A whole number of at most 15 digits, as all that are stored; nil for other text. Any program may have changed a
-- stored value, and one that cannot be read must not stop the step.
local function whole(text)
  return text and #text <= 15 and string.find(text, '^%d+$') and tonumber(text) or nil
end

--- count
-- Adds to a counter in `meta`. A counter that is not a number is reset: it must not stop the step. One that is back at
-- zero is deleted.
local function count(name, by, key)
  local reply = redis.pcall('HINCRBY', key or META, name, by)
  if type(reply) == 'table' then
    redis.call('HSET', key or META, name, math.max(by, 0))
  elseif reply <= 0 then
    redis.call('HDEL', key or META, name)
  end
end

--- head
-- Reads an optional line of a head: one letter and its value.
local function option(head, letter)
  return string.match(head, '\n' .. letter .. '([^\n]*)')
end
local function priority_of(head)
  return math.min(whole(string.match(head or '', '^%d+ (%d+)')) or LAST_PRIORITY, LAST_PRIORITY)
end
local function retries_of(head)
  return whole(string.match(head, '^%d+ %d+ (%d+)')) or 0
end
-- When a job expires: a time, or `+` and milliseconds after it was enqueued.
local function expiry(head)
  local sign, ms = string.match(head, '\nx(%+?)(%d+)')
  ms = whole(ms)
  return ms and (sign == '+' and (whole(string.match(head, '^%d+')) or 0) + ms or ms)
end

--- versions
-- Each change of a waiting job gives it a new version, the line `v` of its head: so a plan notices a change that leaves
-- the job in its place. No number is used twice for a job: a moved job keeps its number.
local function next_version()
  local number = redis.pcall('HINCRBY', META, 'versions', 1)
  if type(number) == 'table' then -- not a number any more: begin above all that were given
    number = NOW
    redis.call('HSET', META, 'versions', STAMP)
  end
  return string.format('%.0f', number)
end
local function version_of(head)
  return string.find(head, '\nv', 1, true) and option(head, 'v') or ''
end
local function with_version(head, version)
  return string.gsub(head, '\nv[^\n]*', '') .. '\nv' .. version
end

--- attempts
-- How often a job failed, crashed and was in an outage; and true when that cannot be read.
local function attempts_of(id)
  local text = redis.call('HGET', ATTEMPTS, id)
  if not text then return 0, 0, 0 end
  local a, c, o = string.match(text, '^(%d+) (%d+) (%d+)')
  a, c, o = whole(a), whole(c), whole(o)
  if not (a and c and o) then return 0, 0, 0, true end
  return a, c, o
end
local function attempts_text(attempts, crashes, outages)
  return string.format('%.0f %.0f %.0f', attempts, crashes, outages)
end
local function set_attempts(id, attempts, crashes, outages)
  redis.call('HSET', ATTEMPTS, id, attempts_text(attempts, crashes, outages))
end

--- lease
-- A lease is `token claimed ms score flags`. Returns its length, its score in `ready` and its flags; nil for one
-- that cannot be read.
local function read_lease(lease)
  local ms, score, flags = string.match(lease or '', '^%S+ %S+ (%d+) (%S+) ?(%S*)$')
  ms, score = whole(ms), tonumber(score)
  if ms and score and score == score then return ms, score, flags end
  return nil
end

--- event
-- Adds a line to a job's events; drops the oldest lines beyond 64 KiB.
local function add_event(id, kind, json)
  local line = STAMP .. ' ' .. kind .. ' ' .. json
  local old = redis.call('HGET', ERROR, id)
  if old then
    line = old .. '\n' .. line
    if #line > 65536 then
      line = string.sub(line, -65536)
      line = string.sub(line, (string.find(line, '\n', 1, true) or 0) + 1)
    end
  end
  redis.call('HSET', ERROR, id, line)
end

--- release_name
-- Releases the unique name of a job, if the job still holds it.
local function release_name(id, head)
  if not string.find(head, '\nu', 1, true) then return end
  local name = option(head, 'n')
  if name and redis.call('HGET', UNIQUE, name) == id then redis.call('HDEL', UNIQUE, name) end
end

--- put_waiting
-- Puts a job into `delayed` until it is due, else into `ready`, behind jobs of its priority.
local function put_waiting(id, head, due)
  if due > NOW then
    redis.call('ZADD', DELAYED, math.min(due, MAX_TIME_MS - 1), id)
  else
    redis.call('ZADD', READY, priority_of(head) * BAND + NOW, id)
  end
end

--- delete_records
-- Deletes the records of jobs that are in no state any more; of jobs whose id stays in `done`, all but the result.
local function delete_records(ids, stays)
  if #ids == 0 then return end
  redis.call('HDEL', HEAD, unpack(ids))
  redis.call('HDEL', BODY, unpack(ids))
  for _, key in ipairs(stays and { ATTEMPTS, ERROR, LOG } or { ATTEMPTS, ERROR, LOG, RESULT }) do
    if redis.call('HLEN', key) > 0 then redis.call('HDEL', key, unpack(ids)) end
  end
end

--- removed
-- Ids of removed jobs, so that an enqueue that is sent again finds them. A job older than RESEND_MS needs none: its
-- enqueue is not sent again. So a purge of very many old jobs keeps nothing.
local function drop_removed(most)
  local old = redis.call('ZRANGEBYSCORE', REMOVED, '-inf', string.format('%.0f', NOW - RESEND_MS), 'LIMIT', 0, most)
  if #old > 0 then redis.call('ZREM', REMOVED, unpack(old)) end
  return #old
end
-- The head has the age of a job; without a head, the time it ended is used.
local function keep_removed(ids, heads, ended_at)
  local z, oldest = {}, string.format('%.0f', NOW - RESEND_MS)
  for i, id in ipairs(ids) do
    -- Times have 13 digits, so their texts compare like numbers.
    if tostring(heads[i] or ended_at[i] or '') >= oldest then z[#z + 1], z[#z + 2] = NOW, id end
  end
  if #z == 0 then return end
  redis.call('ZADD', REMOVED, unpack(z))
  drop_removed(#ids + SLICE)
end

--- early_ending
-- The outcome of a parent in another queue that arrived before the enqueue of the job that waits for it.
local function early_ending(child, ref, outcome)
  return child .. ' ' .. ref .. ' ' .. outcome
end

--- groups
-- Dead letters by their signature. `groups` has for each group, under its id, `count first last id` and on the next
-- lines the class and the pattern of the message; 1,000 groups, the rest counts as `other`. The attempts of a dead job
-- end in its group id, so that the script that takes it away can count it down.
local MAX_GROUPS = 1000
local function read_group(kept)
  local count, first, last, id, text = string.match(kept or '', '^(%d+) (%d+) (%d+) (%S*)\n(.*)$')
  count, first, last = whole(count), whole(first), whole(last)
  return count and first and last and { count = count, first = first, last = last, id = id, text = text }
end
local function group_of(sums, group_id, text)
  if sums[group_id] then return group_id, sums[group_id] end
  local kept = redis.call('HGET', GROUPS, group_id)
  local sum = read_group(kept)
  if sum then
    sums[group_id] = sum
    return group_id, sum
  end
  sum = { count = 0, last = 0 }
  if not text then
    if kept then redis.call('HDEL', GROUPS, group_id) end -- it cannot be read
    return nil
  elseif group_id ~= 'other' and redis.call('HLEN', GROUPS) + sums[1] >= MAX_GROUPS then
    return group_of(sums, 'other', 'other\n')
  else
    sums[1] = sums[1] + 1
    sum.text = text
  end
  sums[group_id] = sum
  return group_id, sum
end
local function save_groups(sums)
  sums[1] = nil
  for group_id, sum in pairs(sums) do
    if sum.count > 0 then
      redis.call('HSET', GROUPS, group_id,
        string.format('%d %.0f %.0f %s\n%s', sum.count, sum.first, sum.last, sum.id, sum.text))
    else
      redis.call('HDEL', GROUPS, group_id)
    end
  end
end
local function group_id_of(attempts)
  return attempts and string.match(attempts, '^%d+ %d+ %d+ (%S+)')
end
-- Counts dead jobs with these attempts, at these scores. Returns the attempts with their group id.
local function count_dead(ids, scores, attempts, texts)
  local sums, out, alike = { 0 }, {}, {} -- sums[1]: new groups; most attempts are the same text
  for i, id in ipairs(ids) do
    local text = attempts[i]
    local known = text and alike[text]
    if text and not known then
      local was = group_id_of(text)
      local group_id, sum
      if was then group_id, sum = group_of(sums, was, texts[was]) end
      known = { sum = sum, text = text }
      if group_id ~= was and sum then known.text = string.match(text, '^%d+ %d+ %d+ ') .. group_id end
      alike[text] = known
    end
    out[i] = known and known.text or false
    local sum = known and known.sum
    if sum then
      local at = tonumber(scores[i]) or sum.first or NOW -- without one the job is in no list
      at = math.max(0, math.min(at, NOW))
      sum.count = sum.count + 1
      if not sum.first or at < sum.first then sum.first = at end
      if at > sum.last or at == sum.last and id > (sum.id or '') then sum.last, sum.id = at, id end
    end
  end
  save_groups(sums)
  return out
end
-- Gives groups whose newest job left the newest of the others, if it is near the end of the list.
local function renew_newest(sums)
  local lost, any = {}, false
  for group_id, sum in pairs(sums) do
    if group_id ~= 1 and sum.count > 0 and not redis.call('ZSCORE', DEAD, sum.id) then lost[group_id], any = sum, true end
  end
  local last = any and redis.call('ZREVRANGE', DEAD, 0, SLICE - 1, 'WITHSCORES') or {}
  local ids = {}
  for i = 1, #last, 2 do ids[#ids + 1] = last[i] end
  if #ids == 0 then return end
  for i, attempts in ipairs(redis.call('HMGET', ATTEMPTS, unpack(ids))) do
    local group_id = group_id_of(attempts)
    local sum = group_id and lost[group_id]
    if sum then
      sum.last, sum.id = math.max(0, math.min(tonumber(last[2 * i]), NOW)), ids[i]
      lost[group_id] = nil
    end
  end
end
-- Stops counting dead jobs with these attempts, which left the list. Returns the texts of their groups by id.
local function uncount_dead(attempts)
  local sums, texts, alike = { 0 }, {}, {} -- most attempts are the same text
  for i = 1, #attempts do
    local text = attempts[i]
    if text then alike[text] = (alike[text] or 0) + 1 end
  end
  for text, count in pairs(alike) do
    local group_id = group_id_of(text)
    local sum = group_id and (sums[group_id] or select(2, group_of(sums, group_id)))
    if sum then
      sum.count = sum.count - count
      texts[group_id] = sum.text
    end
  end
  renew_newest(sums)
  save_groups(sums)
  return texts
end

--- handler
-- Enqueues the failure handler of a buried job, in the step that buries it. Its body has the whole record as
-- netstrings, because a payload is opaque here. Copying takes time, so it counts against the budget of a call.
local budget = SLICE
local function netstring(text)
  return #text .. ':' .. text .. ','
end
local function enqueue_failure_handler(id, head)
  local task, queue = string.match(option(head, 'f') or '', '^(%S+) ?(%S*)$')
  if not task then return end
  local hid = id .. '-f' .. STAMP
  -- The options of its task, if it declares any; else the priority of the job, and three retries.
  local own = option(head, 'h')
  local template = (own and string.gsub(own, '\31', '\n') or priority_of(head) .. ' 3 ' .. task) .. '\no' .. id
  local priority = math.min(whole(string.match(template, '^%d+')) or LAST_PRIORITY, LAST_PRIORITY)
  local body = netstring(id) .. netstring(head) .. netstring(redis.call('HGET', ATTEMPTS, id) or '')
    .. netstring(redis.call('HGET', ERROR, id) or '') .. netstring(redis.call('HGET', BODY, id) or '')
  budget = budget - math.floor(#body / BYTES_PER_ENTRY)
  if queue == '' then
    redis.call('HSET', HEAD, hid, STAMP .. ' ' .. template)
    redis.call('HSET', BODY, hid, body)
    redis.call('ZADD', READY, priority * BAND + NOW, hid)
    count('n:enqueued', 1)
  else
    redis.call('XADD', OUTBOX, '*', 'k', 'job', 'q', queue, 'i', hid, 'p', priority, 't', template, 'b', body)
  end
end

--- dependents
-- What the end of a job does to its dependents: they stop waiting or die with it. One call resolves at most SLICE of
-- them, fewer when there is much to read or to copy; the rest, and those of other queues, go to the outbox.
-- Where `affected` is set, the effects on dependents are recorded there, for undo.
local QUEUE = string.sub(META, 2, -7)
local affected, BATCH
local resolve_dependents

local function bury(id, head, group)
  redis.call('ZADD', DEAD, NOW, id)
  count('n:dead', 1)
  release_name(id, head)
  enqueue_failure_handler(id, head)
  local attempts, crashes, outages = attempts_of(id)
  local group_id = string.sub(redis.sha1hex(group), 1, 10)
  local text = attempts_text(attempts, crashes, outages) .. ' ' .. group_id
  redis.call('HSET', ATTEMPTS, id, count_dead({ id }, { NOW }, { text }, { [group_id] = group })[1])
  resolve_dependents(id, 'dead')
end

-- Buries a job whose record cannot be read, so that it does not block others.
local function bury_unreadable(id, head, what)
  local reason = 'its ' .. what .. ' cannot be read'
  add_event(id, 'buried', '{"class":"UnreadableRecord","message":"' .. reason .. '"}')
  bury(id, head, 'UnreadableRecord\n' .. reason)
end

-- The refs that a job waits for without one of them; nil when it does not wait for that one.
local function without(need, ref)
  local text, mark, found = ' ' .. need .. ' ', ' ' .. ref .. ' ', false
  while true do
    local from, to = string.find(text, mark, 1, true)
    if not from then break end
    text, found = string.sub(text, 1, from) .. string.sub(text, to + 1), true
  end
  return found and string.sub(text, 2, -2) or nil
end

local function resolve_dependent(child, ref, outcome)
  local need = redis.call('HGET', AFTER, '<' .. child)
  if not need then return end
  budget = budget - 1 - math.floor(#need / BYTES_PER_ENTRY)
  local left = without(need, ref)
  local blank = not string.find(need, '%S')
  if not left and not blank then return end
  local head = redis.call('HGET', HEAD, child)
  local due = redis.call('ZSCORE', BLOCKED, child)
  if not head or not due then
    redis.call('HDEL', AFTER, '<' .. child)
    if redis.call('ZREM', BLOCKED, child) == 1 then
      count('n:missing', 1)
      redis.call('HDEL', BODY, child)
      keep_removed({ child }, {}, { STAMP })
      resolve_dependents(child, 'unknown')
    end
    return
  end
  if blank then -- it would wait for ever
    redis.call('HDEL', AFTER, '<' .. child)
    redis.call('ZREM', BLOCKED, child)
    bury_unreadable(child, head, 'list of dependencies')
    return
  end
  local dies = outcome ~= 'done' and not string.find(head, '\ndrun', 1, true)
  local event = '{"on":"' .. ref .. '","outcome":"' .. outcome .. '"'
  -- A retry waits for these as well.
  if dies and left ~= '' and #left <= 4000 then event = event .. ',"left":"' .. left .. '"' end
  event = event .. '}'
  if affected then
    local list = dies and affected.died or affected.continued
    list[#list + 1] = { child, due, dies and need or ref, STAMP .. ' dependency ' .. event }
  end
  if dies then
    redis.call('HDEL', AFTER, '<' .. child)
    redis.call('ZREM', BLOCKED, child)
    add_event(child, 'dependency', event)
    bury(child, head, 'DependencyFailed\njob # is ' .. outcome)
  elseif left ~= '' then
    redis.call('HSET', AFTER, '<' .. child, left)
  else
    redis.call('HDEL', AFTER, '<' .. child)
    redis.call('ZREM', BLOCKED, child)
    put_waiting(child, head, tonumber(due))
  end
end

-- Writes an effect for another call, or another queue; with the batch that caused it.
local function write_outbox(...)
  if not affected then return redis.call('XADD', OUTBOX, '*', ...) end
  local entry = { ... }
  entry[#entry + 1], entry[#entry + 2] = 'u', BATCH
  redis.call('XADD', OUTBOX, '*', unpack(entry))
end

resolve_dependents = function(id, outcome)
  local field = '>' .. id
  local kids = redis.call('HGET', AFTER, field)
  if not kids then return end
  if budget <= 0 then
    write_outbox('k', 'release', 'i', id, 'o', outcome)
    return
  end
  local more, list = string.match(kids, '^(%d+) (.*)$')
  if not whole(more) then more, list = '0', kids end
  local chunk = more ~= '0' and redis.call('HGET', AFTER, field .. '#' .. more)
  if chunk then
    redis.call('HSET', AFTER, field, chunk)
    redis.call('HDEL', AFTER, field .. '#' .. more)
  else
    more = '0'
    redis.call('HDEL', AFTER, field)
  end
  local at = 1
  while budget > 0 do
    local from, to = string.find(list, '%S+', at)
    if not from then break end
    local ref = string.sub(list, from, to)
    local child, queue = string.match(ref, '^([^@]+)@(.+)$')
    if child then
      budget = budget - 1
      if affected then affected.queues[queue] = true end
      write_outbox('k', 'resolve', 'q', queue, 'i', child, 'r', id .. '@' .. QUEUE, 'o', outcome)
    else
      resolve_dependent(ref, id, outcome)
    end
    at = to + 1
  end
  if string.find(list, '%S', at) then
    -- The rest becomes the newest chunk.
    local rest = string.sub(list, string.find(list, '%S', at), -1)
    local behind = redis.call('HGET', AFTER, field)
    if behind then redis.call('HSET', AFTER, field .. '#' .. more, behind) end
    redis.call('HSET', AFTER, field, more .. ' ' .. rest)
    more = '1'
  end
  if more ~= '0' then write_outbox('k', 'release', 'i', id, 'o', outcome) end
end

--- drop_missing
-- Drops and counts a job without a head, which cannot run, and resolves its dependents.
local function drop_missing(id)
  count('n:missing', 1)
  if id ~= '' then delete_records({ id }) end -- the padding has the empty name
  keep_removed({ id }, {}, { STAMP })
  resolve_dependents(id, 'unknown')
end

--- add_dependent
-- Records that a child waits for a parent. The list is kept in chunks of 4 KB: ">id" has the newest one and the
-- number of the others.
local function add_dependent(parent, child)
  local field = '>' .. parent
  local list = redis.call('HGET', AFTER, field)
  if not list then
    redis.call('HSET', AFTER, field, '0 ' .. child)
  elseif string.find(list .. ' ', ' ' .. child .. ' ', 1, true) then
    return -- restored by undo, or sent twice
  elseif #list < 4000 then
    redis.call('HSET', AFTER, field, list .. ' ' .. child)
  else
    local more = string.format('%.0f', (whole(string.match(list, '^(%d+) ')) or 0) + 1)
    redis.call('HSET', AFTER, field .. '#' .. more, list)
    redis.call('HSET', AFTER, field, more .. ' ' .. child)
  end
end

local function remove_dependent(parent, child)
  local field = '>' .. parent
  local more, list = string.match(redis.call('HGET', AFTER, field) or '', '^(%d+) (.*)$')
  local from, to = string.find(' ' .. (list or '') .. ' ', ' ' .. child .. ' ', 1, true)
  if not from then return end
  list = string.gsub(string.sub(list, 1, math.max(0, from - 2)) .. ' ' .. string.sub(list, to), '^ ', '')
  list = string.gsub(list, ' $', '')
  if list ~= '' or more ~= '0' then
    redis.call('HSET', AFTER, field, more .. ' ' .. list)
  else
    redis.call('HDEL', AFTER, field)
  end
end

--- wake
-- One token wakes one idle worker; there is never more than one.
local function wake()
  if redis.call('LLEN', WAKEUP) == 0 then redis.call('LPUSH', WAKEUP, '1') end
end

--- stop_requests
-- Wakes the workers that hold leases: they wait on this stream, and renew their leases at once, which reports the
-- change. Returns the id of the entry, which undo removes.
local function request_stop(leases)
  local seen, workers = {}, {}
  for _, lease in ipairs(leases) do
    local worker = lease and string.match(lease, '^([^:]+):')
    if worker and not seen[worker] then
      seen[worker] = true
      workers[#workers + 1] = worker
    end
  end
  if #workers == 0 then return nil end
  local entry = redis.call('XADD', STOP_REQUESTS, 'MAXLEN', 100, '*', 'w', table.concat(workers, ' '))
  redis.call('PEXPIRE', STOP_REQUESTS, 600000)
  return entry
end

--- affected
-- Keeps what a call for a batch did to dependents, for undo: under `died:number` those that died, under
-- `continued:number` those that stopped waiting, and in `queues` the other queues that the batch reaches.
local function keep_affected()
  local function keep(kind, rows)
    if #rows == 0 then return end
    local c = { ids = {}, scores = {}, waits = {}, lines = {} }
    for i, row in ipairs(rows) do c.ids[i], c.scores[i], c.waits[i], c.lines[i] = row[1], row[2], row[3], row[4] end
    local packed = cmsgpack.pack({ v = kind, s = 'blocked', n = #rows, t = STAMP, c = c })
    if (whole(redis.call('HGET', UNDO, 'bytes')) or 0) + #packed > 67108864 then
      count('unkept', #rows, UNDO)
      return
    end
    count('bytes', #packed, UNDO)
    count(kind, 1, UNDO)
    redis.call('HSET', UNDO, kind .. ':' .. redis.call('HGET', UNDO, kind), packed)
  end
  keep('died', affected.died)
  keep('continued', affected.continued)
  if next(affected.queues) then
    local queues = redis.call('HGET', UNDO, 'queues') or ''
    for queue in pairs(affected.queues) do
      if not without(queues, queue) then queues = queues == '' and queue or queues .. ' ' .. queue end
    end
    redis.call('HSET', UNDO, 'queues', queues)
  end
  if redis.call('PTTL', UNDO) == -1 then redis.call('PEXPIRE', UNDO, 86400000) end
end

--- first
-- The first time in a list; 0 for none.
local function first_at(key)
  local at = tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or 0)
  return at < MAX_TIME_MS and math.max(at, 0) or 0
end
-- When to check for expired leases again. In a minute at the latest while jobs run: after the server's clock was set
-- back all deadlines are too far ahead.
local function next_lease_check()
  local at = first_at(RUNNING)
  return at == 0 and redis.call('ZCARD', RUNNING) > 0 and NOW + 60000 or math.min(at, NOW + 60000)
end

--- trim
-- Drops the oldest entries of a list of ended jobs: those beyond its age, and those beyond its size. None is dropped
-- before it is `keep` old, so that a call sent again finds its id. Returns how many were dropped.
local function trim(key, ttl, max, keep, counter, most)
  ttl = math.max(ttl, keep)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if not first[1] then return 0 end
  local over = redis.call('ZCARD', key) - max
  local ids = {}
  if tonumber(first[2]) < NOW - ttl then
    ids = redis.call('ZRANGEBYSCORE', key, '-inf', '(' .. string.format('%.0f', NOW - ttl), 'LIMIT', 0, most)
  elseif over > 0 and tonumber(first[2]) <= NOW - keep then
    ids = redis.call('ZRANGEBYSCORE', key, '-inf', string.format('%.0f', NOW - keep), 'LIMIT', 0, math.min(over, most))
  end
  if #ids == 0 then return 0 end
  redis.call('ZREM', key, unpack(ids))
  if key == DEAD then
    if redis.call('HLEN', ATTEMPTS) > 0 then uncount_dead(redis.call('HMGET', ATTEMPTS, unpack(ids))) end
    if keep < RESEND_MS then keep_removed(ids, redis.call('HMGET', HEAD, unpack(ids)), {}) end
    if redis.call('HLEN', AFTER) > 0 then -- retried jobs may wait for them
      for _, id in ipairs(ids) do resolve_dependents(id, 'unknown') end
    end
  end
  delete_records(ids)
  count(counter, #ids)
  return #ids
end

--- save_counts
-- Saves the number of jobs in each state beside the counters, so that one read shows a queue.
local function save_counts()
  redis.call('HSET', META,
    'ready', redis.call('ZCARD', READY), 'delayed', redis.call('ZCARD', DELAYED),
    'blocked', redis.call('ZCARD', BLOCKED), 'running', redis.call('ZCARD', RUNNING),
    'dead_letter', redis.call('ZCARD', DEAD), 'done', redis.call('ZCARD', DONE),
    'cancelled', redis.call('ZCARD', CANCELLED))
end

--- states
-- The lists of jobs by state, and the state of a job.
local LISTS = { ready = READY, delayed = DELAYED, blocked = BLOCKED, running = RUNNING, dead = DEAD, done = DONE,
  cancelled = CANCELLED }
local STATES = { 'ready', 'delayed', 'blocked', 'running', 'dead', 'done', 'cancelled' }
local LIVE = { ready = true, delayed = true, blocked = true, running = true }
local function state_of(id)
  for _, state in ipairs(STATES) do
    local score = redis.call('ZSCORE', LISTS[state], id)
    if score then return state, tonumber(score) end
  end
  return nil
end

--- name_holder
-- The other job that holds a unique name; a name whose holder has ended is free.
local function name_holder(id, name)
  local holder = redis.call('HGET', UNIQUE, name)
  if holder and holder ~= id and LIVE[state_of(holder) or ''] then return holder end
  return nil
end

--- columns
-- One value of many jobs: a list with `false` where a job has none, or nil when the key is empty.
local function column(key, ids)
  if redis.call('HLEN', key) == 0 then return nil end
  return redis.call('HMGET', key, unpack(ids))
end
-- Writes a column back, without the missing values.
local function put(key, ids, values)
  local z = {}
  for i, id in ipairs(ids) do
    if values[i] then
      z[#z + 1] = id
      z[#z + 1] = values[i]
    end
  end
  if #z > 0 then redis.call('HSET', key, unpack(z)) end
end

--- unknown_tasks
-- Jobs whose worker lacked their task wait in `delayed` until a worker polls that has it. `unknown_tasks` has them by task:
-- `slot of the task · BAND + when it is due`. META `unknown_tasks` has a line `slot since jobs task` for each of at most
-- 100 tasks; jobs of further tasks share slot 0, and run again when they are due. An entry whose job is not in `delayed`
-- at that time any more is ignored.
local MAX_UNKNOWN = 100
local function task_of(head)
  return string.match(head, '^%d+ %d+ %d+ ([^\n]*)') or '?'
end
local function read_unknown(text)
  local tasks = {}
  for slot, since, task in string.gmatch(text or '', '(%d+) (%d+) %d+ ([^\n]*)') do
    slot = whole(slot)
    if slot and slot <= MAX_UNKNOWN and whole(since) then tasks[task] = { slot = slot, since = since } end
  end
  return tasks
end
local function slot_of(tasks, task)
  if tasks[task] then return tasks[task].slot end
  if #task > 200 then return 0 end
  local taken = {}
  for _, one in pairs(tasks) do taken[one.slot] = true end
  for slot = 1, MAX_UNKNOWN do
    if not taken[slot] then
      tasks[task] = { slot = slot, since = STAMP }
      return slot
    end
  end
  return 0
end
-- The delay is 5s, and doubles up to 60s: it is 5s more than the time since the first refusal.
local function delay_unknown(id, head, tasks, worker)
  local text = redis.call('HGET', ERROR, id)
  local last = text and string.match('\n' .. string.sub(text, -400), '\n([^\n]*)$')
  local since = last and whole(string.match(last, '^(%d+) unknown_task '))
  if not since then
    add_event(id, 'unknown_task', '{"worker":"' .. worker .. '"}')
    since = NOW
  end
  local due = NOW + math.max(5000, math.min(60000, 5000 + NOW - since))
  redis.call('ZADD', DELAYED, due, id)
  redis.call('ZADD', UNKNOWN_TASKS, slot_of(tasks, task_of(head)) * BAND + due, id)
end
-- Writes to META the tasks that jobs wait for, with the number of jobs, and returns the text.
local function save_unknown(tasks)
  if redis.call('EXISTS', UNKNOWN_TASKS) == 0 then
    redis.call('HDEL', META, 'unknown_tasks')
    return ''
  end
  local lines = {}
  for task, one in pairs(tasks) do
    local first, last = string.format('%.0f', one.slot * BAND), string.format('(%.0f', (one.slot + 1) * BAND)
    local jobs = redis.call('ZCOUNT', UNKNOWN_TASKS, first, last)
    if jobs > 0 then lines[#lines + 1] = string.format('%03d %s %d %s', one.slot, one.since, jobs, task) end
  end
  table.sort(lines)
  local text = table.concat(lines, '\n')
  redis.call('HSET', META, 'unknown_tasks', text)
  return text
end

--- events
-- Adds one line to the events of many jobs, as `add_event` does for one; `old` is their events if they were read
-- before. Returns the line.
local function add_events(ids, kind, json, old)
  local line, z = STAMP .. ' ' .. kind .. ' ' .. json, {}
  old = old or redis.call('HMGET', ERROR, unpack(ids))
  for i, id in ipairs(ids) do
    local text = old[i] and old[i] .. '\n' .. line or line
    if #text > 65536 then
      text = string.sub(text, -65536)
      text = string.sub(text, (string.find(text, '\n', 1, true) or 0) + 1)
    end
    z[2 * i - 1], z[2 * i] = id, text
  end
  redis.call('HSET', ERROR, unpack(z))
  return line
end
