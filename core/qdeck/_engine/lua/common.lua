-- Pieces shared by the scripts. A script names the pieces it wants in its `uses:` line and the loader puts
-- them before it, in the order of this file. A piece sees the keys that the script declares (META, READY, …),
-- NOW (milliseconds, a number) and STAMP (the same as text).

--- time
-- The server's clock. Tests alone pass a time of their own.
local NOW = tonumber(ARGV[1])
if NOW == 0 then
  local t = redis.call('TIME')
  NOW = t[1] * 1000 + math.floor(t[2] / 1000)
end
local STAMP = string.format('%.0f', NOW)

--- open
-- A queue that was never used is made by init.lua first; one of another layout is left alone.
local version = redis.call('HGET', META, 'v')
if version ~= LAYOUT then
  return redis.error_reply(version and 'QDECK VERSION ' .. version .. ' ' .. LAYOUT or 'QDECK FRESH')
end

--- constants
local BAND = 10000000000000 -- one step of priority in the score of `ready`
local LAST = 899            -- the last priority
local FAR = 1000000000000000 -- ms; no time that is kept here is so late
local SLICE = 200           -- entries that one call touches on behalf of others
local COSTLY = 5000         -- bytes that cost a call as much as one more entry
local RESEND = 60000        -- ms in which an enqueue may be sent again: for so long its id is kept

--- late
-- Whether what a client read is too old to act on: another may have acted on it since, and the trace of that may be gone.
-- Half of RESEND, so that the clocks of two servers of a cluster may differ by the other half.
local function is_late(read_at)
  return tonumber(read_at) > 0 and NOW - tonumber(read_at) > RESEND / 2
end

--- resent
-- Whether a job with this id was removed so lately that its enqueue may be sent again.
local function was_removed(id)
  local at = redis.call('ZSCORE', REMOVED, id)
  return at and tonumber(at) > NOW - RESEND
end

--- whole
-- A whole number of at most 15 digits, as all that are kept here; nil for any other text. What is stored may have been
-- changed by anyone, and a value that cannot be read must not stop the step that reads it.
local function whole(text)
  return text and #text <= 15 and string.find(text, '^%d+$') and tonumber(text) or nil
end

--- count
-- Adds to a counter in `meta`. One that is not a number begins anew: it must not stop the step that counts. One that is
-- back at nothing is as if it had never been.
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
  return math.min(whole(string.match(head or '', '^%d+ (%d+)')) or LAST, LAST)
end
local function retries_of(head)
  return whole(string.match(head, '^%d+ %d+ (%d+)')) or 0
end
-- When a job may not start any more: a time, or `+` and so long after it was enqueued.
local function expiry(head)
  local sign, ms = string.match(head, '\nx(%+?)(%d+)')
  ms = whole(ms)
  return ms and (sign == '+' and (whole(string.match(head, '^%d+')) or 0) + ms or ms)
end

--- versions
-- Each change of a job that waits gives it a version of its own, the line `v` of its head: so a plan notices a change that
-- leaves the job where it was. No number is used twice for a job: one that is moved takes its number along.
local function next_version()
  local number = redis.pcall('HINCRBY', META, 'versions', 1)
  if type(number) == 'table' then -- it is no number any more: begin above all that were given
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
-- How often a job failed, crashed and fell to an outage; and true when that cannot be read.
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
-- A lease is `token claimed ms score flags`. Returns its length, its place in `ready` and its flags; nothing for one
-- that cannot be read.
local function read_lease(lease)
  local ms, score, flags = string.match(lease or '', '^%S+ %S+ (%d+) (%S+) ?(%S*)$')
  ms, score = whole(ms), tonumber(score)
  if ms and score and score == score then return ms, score, flags end
  return nil
end

--- note
-- Adds a line to the job's events; the oldest lines go when there are more than 64 KiB of them.
local function note(id, kind, json)
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

--- free
-- Gives the unique name of a job back, if the job still holds it.
local function free(id, head)
  if not string.find(head, '\nu', 1, true) then return end
  local name = option(head, 'n')
  if name and redis.call('HGET', UNIQUE, name) == id then redis.call('HDEL', UNIQUE, name) end
end

--- place
-- Puts a job where it waits: `delayed` until it is due, else `ready`, behind its equals.
local function place(id, head, due)
  if due > NOW then
    redis.call('ZADD', DELAYED, math.min(due, FAR - 1), id)
  else
    redis.call('ZADD', READY, priority_of(head) * BAND + NOW, id)
  end
end

--- forget
-- Drops all that is kept about jobs that are in no state any more; of jobs whose id stays in `done`, all but the result.
local function forget(ids, stays)
  if #ids == 0 then return end
  redis.call('HDEL', HEAD, unpack(ids))
  redis.call('HDEL', BODY, unpack(ids))
  for _, key in ipairs(stays and { ATTEMPTS, ERROR, LOG } or { ATTEMPTS, ERROR, LOG, RESULT }) do
    if redis.call('HLEN', key) > 0 then redis.call('HDEL', key, unpack(ids)) end
  end
end

--- removed
-- Ids of removed jobs, so that an enqueue that is sent again finds them. A job that is older than RESEND needs none: its
-- enqueue is not sent again. So a purge of very many old jobs keeps nothing.
local function drop_removed(most)
  local old = redis.call('ZRANGEBYSCORE', REMOVED, '-inf', string.format('%.0f', NOW - RESEND), 'LIMIT', 0, most)
  if #old > 0 then redis.call('ZREM', REMOVED, unpack(old)) end
  return #old
end
-- How old a job is stands in its head; where there is none any more, when it ended is late enough.
local function keep_removed(ids, heads, ended_at)
  local z, oldest = {}, string.format('%.0f', NOW - RESEND)
  for i, id in ipairs(ids) do
    -- Times have 13 digits, so their texts compare as they do.
    if tostring(heads[i] or ended_at[i] or '') >= oldest then z[#z + 1], z[#z + 2] = NOW, id end
  end
  if #z == 0 then return end
  redis.call('ZADD', REMOVED, unpack(z))
  drop_removed(#ids + SLICE)
end

--- early
-- The end of a parent in another queue that arrived before the enqueue of the job that waits for it.
local function early_end(child, ref, outcome)
  return child .. ' ' .. ref .. ' ' .. outcome
end

--- groups
-- Dead letters by what they died of. `groups` keeps of each kind, under a digest, `count first last id` and on the lines
-- after it the class and the shape of the message; 1,000 kinds, what is beyond them counts as `other`. The attempts of a
-- dead job end in its digest, so that whatever takes it away can count it down.
local MOST_GROUPS = 1000
local function read_group(kept)
  local count, first, last, id, text = string.match(kept or '', '^(%d+) (%d+) (%d+) (%S*)\n(.*)$')
  count, first, last = whole(count), whole(first), whole(last)
  return count and first and last and { count = count, first = first, last = last, id = id, text = text }
end
local function group_of(sums, digest, text)
  if sums[digest] then return digest, sums[digest] end
  local kept = redis.call('HGET', GROUPS, digest)
  local sum = read_group(kept)
  if sum then
    sums[digest] = sum
    return digest, sum
  end
  sum = { count = 0, last = 0 }
  if not text then
    if kept then redis.call('HDEL', GROUPS, digest) end -- it cannot be read
    return nil
  elseif digest ~= 'other' and redis.call('HLEN', GROUPS) + sums[1] >= MOST_GROUPS then
    return group_of(sums, 'other', 'other\n')
  else
    sums[1] = sums[1] + 1
    sum.text = text
  end
  sums[digest] = sum
  return digest, sum
end
local function save_groups(sums)
  sums[1] = nil
  for digest, sum in pairs(sums) do
    if sum.count > 0 then
      redis.call('HSET', GROUPS, digest,
        string.format('%d %.0f %.0f %s\n%s', sum.count, sum.first, sum.last, sum.id, sum.text))
    else
      redis.call('HDEL', GROUPS, digest)
    end
  end
end
local function digest_of(attempts)
  return attempts and string.match(attempts, '^%d+ %d+ %d+ (%S+)')
end
-- Dead jobs with these attempts are counted from now on, at these scores. Returns the attempts with what they count as.
local function join(ids, scores, attempts, texts)
  local sums, out, alike = { 0 }, {}, {} -- sums[1]: how many are new; most attempts are the same text
  for i, id in ipairs(ids) do
    local text = attempts[i]
    local known = text and alike[text]
    if text and not known then
      local was = digest_of(text)
      local digest, sum
      if was then digest, sum = group_of(sums, was, texts[was]) end
      known = { sum = sum, text = text }
      if digest ~= was and sum then known.text = string.match(text, '^%d+ %d+ %d+ ') .. digest end
      alike[text] = known
    end
    out[i] = known and known.text or false
    local sum = known and known.sum
    if sum then
      local at = tonumber(scores[i]) or sum.first or NOW -- without one it is on no list
      at = math.max(0, math.min(at, NOW))
      sum.count = sum.count + 1
      if not sum.first or at < sum.first then sum.first = at end
      if at > sum.last or at == sum.last and id > (sum.id or '') then sum.last, sum.id = at, id end
    end
  end
  save_groups(sums)
  return out
end
-- Groups whose newest job has left get the newest of those that stay, where it is among the last of the list.
local function renew_newest(sums)
  local lost, any = {}, false
  for digest, sum in pairs(sums) do
    if digest ~= 1 and sum.count > 0 and not redis.call('ZSCORE', DEAD, sum.id) then lost[digest], any = sum, true end
  end
  local last = any and redis.call('ZREVRANGE', DEAD, 0, SLICE - 1, 'WITHSCORES') or {}
  local ids = {}
  for i = 1, #last, 2 do ids[#ids + 1] = last[i] end
  if #ids == 0 then return end
  for i, attempts in ipairs(redis.call('HMGET', ATTEMPTS, unpack(ids))) do
    local digest = digest_of(attempts)
    local sum = digest and lost[digest]
    if sum then
      sum.last, sum.id = math.max(0, math.min(tonumber(last[2 * i]), NOW)), ids[i]
      lost[digest] = nil
    end
  end
end
-- Dead jobs with these attempts, which are on the list no more, are not counted any more. Returns the texts of their groups
-- by digest.
local function leave(attempts)
  local sums, texts, alike = { 0 }, {}, {} -- most attempts are the same text
  for i = 1, #attempts do
    local text = attempts[i]
    if text then alike[text] = (alike[text] or 0) + 1 end
  end
  for text, count in pairs(alike) do
    local digest = digest_of(text)
    local sum = digest and (sums[digest] or select(2, group_of(sums, digest)))
    if sum then
      sum.count = sum.count - count
      texts[digest] = sum.text
    end
  end
  renew_newest(sums)
  save_groups(sums)
  return texts
end

--- handler
-- Makes the failure handler of a buried job, in the step that buries it. Its body carries the whole record as
-- netstrings, because a payload is opaque here. Copying is what costs, so it counts against what a call may do.
local budget = SLICE
local function netstring(text)
  return #text .. ':' .. text .. ','
end
local function call_handler(id, head)
  local task, queue = string.match(option(head, 'f') or '', '^(%S+) ?(%S*)$')
  if not task then return end
  local hid = id .. '-f' .. STAMP
  -- The options of its task, when it declares any; else the rank of the job, and three retries.
  local own = option(head, 'h')
  local tail = (own and string.gsub(own, '\31', '\n') or priority_of(head) .. ' 3 ' .. task) .. '\no' .. id
  local priority = math.min(whole(string.match(tail, '^%d+')) or LAST, LAST)
  local body = netstring(id) .. netstring(head) .. netstring(redis.call('HGET', ATTEMPTS, id) or '')
    .. netstring(redis.call('HGET', ERROR, id) or '') .. netstring(redis.call('HGET', BODY, id) or '')
  budget = budget - math.floor(#body / COSTLY)
  if queue == '' then
    redis.call('HSET', HEAD, hid, STAMP .. ' ' .. tail)
    redis.call('HSET', BODY, hid, body)
    redis.call('ZADD', READY, priority * BAND + NOW, hid)
    count('n:enqueued', 1)
  else
    redis.call('XADD', OUTBOX, '*', 'k', 'job', 'q', queue, 'i', hid, 'p', priority, 't', tail, 'b', body)
  end
end

--- ended
-- What the end of a job does to others: its dependents go on or die with it. At most SLICE of them are settled in
-- one call, fewer when there is much to read or to copy; the rest, and those on other queues, go to the outbox.
-- Where `fallen` is set, what is done to dependents is noted there, for undo.
local QUEUE = string.sub(META, 2, -7)
local fallen, BATCH
local ended

local function bury(id, head, group)
  redis.call('ZADD', DEAD, NOW, id)
  count('n:dead', 1)
  free(id, head)
  call_handler(id, head)
  local attempts, crashes, outages = attempts_of(id)
  local digest = string.sub(redis.sha1hex(group), 1, 10)
  local text = attempts_text(attempts, crashes, outages) .. ' ' .. digest
  redis.call('HSET', ATTEMPTS, id, join({ id }, { NOW }, { text }, { [digest] = group })[1])
  ended(id, 'dead')
end

-- A job whose record cannot be read is buried with that reason, so that it holds up no other.
local function bury_unreadable(id, head, what)
  local reason = 'its ' .. what .. ' cannot be read'
  note(id, 'buried', '{"class":"UnreadableRecord","message":"' .. reason .. '"}')
  bury(id, head, 'UnreadableRecord\n' .. reason)
end

-- What a job waits for, without one of it; nil when that is not among it.
local function without(need, ref)
  local text, mark, found = ' ' .. need .. ' ', ' ' .. ref .. ' ', false
  while true do
    local from, to = string.find(text, mark, 1, true)
    if not from then break end
    text, found = string.sub(text, 1, from) .. string.sub(text, to + 1), true
  end
  return found and string.sub(text, 2, -2) or nil
end

local function settle(child, ref, outcome)
  local need = redis.call('HGET', AFTER, '<' .. child)
  if not need then return end
  budget = budget - 1 - math.floor(#need / COSTLY)
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
      ended(child, 'unknown')
    end
    return
  end
  if blank then -- nothing would ever end its wait
    redis.call('HDEL', AFTER, '<' .. child)
    redis.call('ZREM', BLOCKED, child)
    bury_unreadable(child, head, 'list of dependencies')
    return
  end
  local dies = outcome ~= 'done' and not string.find(head, '\ndrun', 1, true)
  local event = '{"on":"' .. ref .. '","outcome":"' .. outcome .. '"}'
  if fallen then
    local list = dies and fallen.fall or fallen.go
    list[#list + 1] = { child, due, dies and need or ref, STAMP .. ' dependency ' .. event }
  end
  if dies then
    redis.call('HDEL', AFTER, '<' .. child)
    redis.call('ZREM', BLOCKED, child)
    note(child, 'dependency', event)
    bury(child, head, 'DependencyFailed\njob # is ' .. outcome)
  elseif left ~= '' then
    redis.call('HSET', AFTER, '<' .. child, left)
  else
    redis.call('HDEL', AFTER, '<' .. child)
    redis.call('ZREM', BLOCKED, child)
    place(child, head, tonumber(due))
  end
end

-- For another call, or another queue. What a batch did is noted under its name wherever it reaches.
local function tell_later(...)
  if not fallen then return redis.call('XADD', OUTBOX, '*', ...) end
  local entry = { ... }
  entry[#entry + 1], entry[#entry + 2] = 'u', BATCH
  redis.call('XADD', OUTBOX, '*', unpack(entry))
end

ended = function(id, outcome)
  local field = '>' .. id
  local kids = redis.call('HGET', AFTER, field)
  if not kids then return end
  if budget <= 0 then
    tell_later('k', 'release', 'i', id, 'o', outcome)
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
      if fallen then fallen.told[queue] = true end
      tell_later('k', 'resolve', 'q', queue, 'i', child, 'r', id .. '@' .. QUEUE, 'o', outcome)
    else
      settle(ref, id, outcome)
    end
    at = to + 1
  end
  if string.find(list, '%S', at) then
    -- The rest becomes the newest chunk again.
    local rest = string.sub(list, string.find(list, '%S', at), -1)
    local behind = redis.call('HGET', AFTER, field)
    if behind then redis.call('HSET', AFTER, field .. '#' .. more, behind) end
    redis.call('HSET', AFTER, field, more .. ' ' .. rest)
    more = '1'
  end
  if more ~= '0' then tell_later('k', 'release', 'i', id, 'o', outcome) end
end

--- missing
-- A job whose head is gone cannot run: it is counted, and those that wait for it are told.
local function missing(id)
  count('n:missing', 1)
  if id ~= '' then forget({ id }) end -- the padding has that name
  keep_removed({ id }, {}, { STAMP })
  ended(id, 'unknown')
end

--- await
-- Notes that a child waits for a parent. The list is kept in chunks of 4 KB: ">id" holds the newest one and how many
-- are behind it.
local function await(parent, child)
  local field = '>' .. parent
  local list = redis.call('HGET', AFTER, field)
  if not list then
    redis.call('HSET', AFTER, field, '0 ' .. child)
  elseif string.find(list .. ' ', ' ' .. child .. ' ', 1, true) then
    return -- put back by undo, or sent twice
  elseif #list < 4000 then
    redis.call('HSET', AFTER, field, list .. ' ' .. child)
  else
    local more = string.format('%.0f', (whole(string.match(list, '^(%d+) ')) or 0) + 1)
    redis.call('HSET', AFTER, field .. '#' .. more, list)
    redis.call('HSET', AFTER, field, more .. ' ' .. child)
  end
end

--- wake
-- One token wakes one idle worker; there is never more than one.
local function wake()
  if redis.call('LLEN', WAKEUP) == 0 then redis.call('LPUSH', WAKEUP, '1') end
end

--- stop_requests
-- Wakes the workers that hold some leases: they wait on this stream, and ask at once what became of their jobs. Returns
-- the id of the entry, which undo removes.
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

--- fallen
-- Keeps what a call on behalf of a batch did to dependents, for undo: under `~number` those that died, under `^number`
-- those that went on, and in `told` the other queues that will hear of it.
local function keep_fallen()
  local function keep(sign, verb, rows)
    if #rows == 0 then return end
    local c = { ids = {}, scores = {}, waits = {}, lines = {} }
    for i, row in ipairs(rows) do c.ids[i], c.scores[i], c.waits[i], c.lines[i] = row[1], row[2], row[3], row[4] end
    local packed = cmsgpack.pack({ v = verb, s = 'blocked', n = #rows, t = STAMP, c = c })
    if (whole(redis.call('HGET', UNDO, 'bytes')) or 0) + #packed > 67108864 then
      count('lost', #rows, UNDO)
      return
    end
    count('bytes', #packed, UNDO)
    count(sign, 1, UNDO)
    redis.call('HSET', UNDO, sign .. redis.call('HGET', UNDO, sign), packed)
  end
  keep('~', 'fall', fallen.fall)
  keep('^', 'go', fallen.go)
  if next(fallen.told) then
    local told = redis.call('HGET', UNDO, 'told') or ''
    for queue in pairs(fallen.told) do
      if not without(told, queue) then told = told == '' and queue or told .. ' ' .. queue end
    end
    redis.call('HSET', UNDO, 'told', told)
  end
  if redis.call('PTTL', UNDO) == -1 then redis.call('PEXPIRE', UNDO, 86400000) end
end

--- first
-- The first time in a list, for whoever has to look again then; 0 for none.
local function first_at(key)
  local at = tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or 0)
  return at < FAR and math.max(at, 0) or 0
end
-- When to look for expired leases again. At the latest in a minute while anything runs: after the server's clock was set
-- back all deadlines are too far ahead.
local function deadline_at()
  local at = first_at(RUNNING)
  return at == 0 and redis.call('ZCARD', RUNNING) > 0 and NOW + 60000 or math.min(at, NOW + 60000)
end

--- trim
-- Drops the oldest entries of a list of ended jobs: those over its age, and those over its size. None goes before it
-- is `keep` old, so that a call sent again finds its id. Returns how many went.
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
    if redis.call('HLEN', ATTEMPTS) > 0 then leave(redis.call('HMGET', ATTEMPTS, unpack(ids))) end
    if keep < RESEND then keep_removed(ids, redis.call('HMGET', HEAD, unpack(ids)), {}) end
  end
  forget(ids)
  count(counter, #ids)
  return #ids
end

--- tally
-- Keeps the counts per state beside the counters, so that one read shows a queue.
local function tally()
  redis.call('HSET', META,
    'ready', redis.call('ZCARD', READY), 'delayed', redis.call('ZCARD', DELAYED),
    'blocked', redis.call('ZCARD', BLOCKED), 'running', redis.call('ZCARD', RUNNING),
    'dead_letter', redis.call('ZCARD', DEAD), 'done', redis.call('ZCARD', DONE),
    'cancelled', redis.call('ZCARD', CANCELLED))
end

--- states
-- Every list of jobs by the word for it, and where a job is.
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

--- holder
-- Who else holds a unique name now; a name whose holder has ended is free.
local function twin_of(id, name)
  local holder = redis.call('HGET', UNIQUE, name)
  if holder and holder ~= id and LIVE[state_of(holder) or ''] then return holder end
  return nil
end

--- columns
-- One kind of value of many jobs: a list with `false` where there is none, or nil when there are none at all.
local function column(key, ids)
  if redis.call('HLEN', key) == 0 then return nil end
  return redis.call('HMGET', key, unpack(ids))
end
-- Writes a column back, without what there was none of.
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
-- Jobs whose task their worker did not know wait in `delayed` until a worker polls that knows it. `unknown_tasks` has them by
-- task: `slot of the task · BAND + when it is due`. META `unknown_tasks` has a line `slot since jobs task` for each of at most
-- 100 tasks; jobs of further tasks share slot 0, and are tried again when they are due. An entry whose job is not in
-- `delayed` at that time any more means nothing.
local MOST_UNKNOWN = 100
local function task_of(head)
  return string.match(head, '^%d+ %d+ %d+ ([^\n]*)') or '?'
end
local function read_unknown(text)
  local tasks = {}
  for slot, since, task in string.gmatch(text or '', '(%d+) (%d+) %d+ ([^\n]*)') do
    slot = whole(slot)
    if slot and slot <= MOST_UNKNOWN and whole(since) then tasks[task] = { slot = slot, since = since } end
  end
  return tasks
end
local function slot_of(tasks, task)
  if tasks[task] then return tasks[task].slot end
  if #task > 200 then return 0 end
  local taken = {}
  for _, one in pairs(tasks) do taken[one.slot] = true end
  for slot = 1, MOST_UNKNOWN do
    if not taken[slot] then
      tasks[task] = { slot = slot, since = STAMP }
      return slot
    end
  end
  return 0
end
-- The delay is 5 s, and doubles up to 60 s: it is 5 s more than the time since the first refusal.
local function hand_back(id, head, tasks, worker)
  local text = redis.call('HGET', ERROR, id)
  local last = text and string.match('\n' .. string.sub(text, -400), '\n([^\n]*)$')
  local since = last and whole(string.match(last, '^(%d+) unknown_task '))
  if not since then
    note(id, 'unknown_task', '{"worker":"' .. worker .. '"}')
    since = NOW
  end
  local due = NOW + math.max(5000, math.min(60000, 5000 + NOW - since))
  redis.call('ZADD', DELAYED, due, id)
  redis.call('ZADD', UNKNOWN_TASKS, slot_of(tasks, task_of(head)) * BAND + due, id)
end
-- Writes to META the tasks that jobs wait for, with how many do, and returns the text.
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

--- annotate
-- Adds one line to the events of many jobs, as `note` does for one; `old` is their events if they were read already.
-- Returns the line.
local function annotate(ids, kind, json, old)
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
