#!lua flags=allow-oom
-- Requeues jobs whose lease expired. The first time a lease is found expired it is extended by half its length, so that a
-- suspended worker can renew it; the second time the job is requeued, or buried as a poison pill. When most running jobs
-- of several workers expire at once, that is an outage and not the fault of a job.
-- keys: meta ready delayed blocked running dead done cancelled removed head body lease attempts error result log claims unique groups after wakeup outbox
-- uses: time open constants whole count head attempts lease event release_name put_waiting delete_records removed groups handler dependents drop_missing wake first save_counts
-- args: now, most, crash limit, outage limit
-- reply: now, warned, requeued, buried, next deadline or 0
local most, crash_limit, outage_limit = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local warned, requeued, buried = 0, 0, 0

-- A lease without an entry in `running` would never expire: add the entry, a slice at a time.
if redis.call('HLEN', LEASE) - 1 > redis.call('ZCARD', RUNNING) then
  local cursor = whole(redis.call('HGET', META, 'lease_cursor')) or 0
  local page = redis.call('HSCAN', LEASE, cursor, 'COUNT', SLICE)
  redis.call('HSET', META, 'lease_cursor', page[1])
  for i = 1, #page[2], 2 do
    local id = page[2][i]
    if id ~= '' and not redis.call('ZSCORE', RUNNING, id) then redis.call('ZADD', RUNNING, NOW - 1, id) end
  end
end

-- A lease ends at most its length from now, unless the clock was set back. Only deadlines over a minute ahead are checked,
-- a slice at a time: the others come soon enough.
local function cap_deadlines()
  local from = whole(redis.call('HGET', META, 'deadline_offset')) or 0
  local far = redis.call('ZREVRANGEBYSCORE', RUNNING, '+inf', '(' .. string.format('%.0f', NOW + 60000), 'WITHSCORES',
    'LIMIT', from, 50)
  local next_from = #far == 100 and from + 50 or 0
  if next_from ~= from then redis.call('HSET', META, 'deadline_offset', next_from) end
  if #far == 0 then return end
  local ids = {}
  for i = 1, #far, 2 do ids[#ids + 1] = far[i] end
  for i, lease in ipairs(redis.call('HMGET', LEASE, unpack(ids))) do
    local latest = NOW + (read_lease(lease) or -1)
    if tonumber(far[2 * i]) > latest then redis.call('ZADD', RUNNING, latest, ids[i]) end
  end
end
cap_deadlines()

-- Jobs that wait for a time that never comes.
for _, key in ipairs({ DELAYED, BLOCKED }) do
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', key, string.format('%.0f', MAX_TIME_MS), '+inf', 'LIMIT', 0, 20)) do
    local head = redis.call('HGET', HEAD, id)
    redis.call('HDEL', AFTER, '<' .. id)
    if head then bury_unreadable(id, head, 'due time') else drop_missing(id) end
    redis.call('ZREM', key, id)
  end
end

local ids = redis.call('ZRANGEBYSCORE', RUNNING, '-inf', '(' .. STAMP, 'LIMIT', 0, most)
local leases = #ids > 0 and redis.call('HMGET', LEASE, unpack(ids)) or {}

local function owner_of(lease)
  return lease and string.match(lease, '^([^%c"\\]-):%d+ ') or ''
end

-- Most of what runs is overdue, and it is not one worker's alone.
local function is_outage()
  local overdue = redis.call('ZCOUNT', RUNNING, '-inf', '(' .. STAMP)
  if overdue * 2 < redis.call('ZCARD', RUNNING) then return false end
  local first = nil
  local sample = redis.call('ZREVRANGEBYSCORE', RUNNING, '(' .. STAMP, '-inf', 'LIMIT', 0, 20)
  for _, id in ipairs(ids) do sample[#sample + 1] = id end
  for _, lease in ipairs(redis.call('HMGET', LEASE, unpack(sample))) do
    local owner = owner_of(lease)
    if owner ~= '' then
      if first and owner ~= first then return true end
      first = owner
    end
  end
  return false
end

local until_ms = whole(redis.call('HGET', META, 'outage')) or 0
local outage = until_ms > NOW and until_ms <= NOW + 10000 -- further ahead: the clock was set back
if #ids > 0 and not outage and is_outage() then
  outage = true
  redis.call('HSET', META, 'outage', NOW + 10000)
end

local function warn(id, lease)
  local ms, _, flags = read_lease(lease)
  redis.call('HSET', LEASE, id, (flags == '' and lease .. ' ?' or lease .. '?'))
  redis.call('ZADD', RUNNING, NOW + math.floor(ms / 2), id)
  warned = warned + 1
end

-- When a job with many outages may run: apart from others like it. Two jobs that crash two workers at the same moment
-- look like an outage; run one after the other, each counts its own crashes.
local MANY_OUTAGES = 8 -- a fleet that is killed a few times in a row continues at once
local function solo_start(lease)
  local gap = (read_lease(lease) or 0) + 20000 -- until sweeps have found its dead worker
  local first = NOW + 10000 -- this outage is over then
  local at = math.max(whole(redis.call('HGET', META, 'next_solo')) or 0, first)
  if at > first + 16 * gap then at = first end
  redis.call('HSET', META, 'next_solo', string.format('%.0f', at + gap))
  return at
end

local function requeue_expired(id, lease, head)
  local owner = owner_of(lease)
  local attempts, crashes, outages, broken = attempts_of(id)
  if outage then
    outages = outages + 1
    add_event(id, 'outage', '{"worker":"' .. owner .. '","outages":' .. outages .. '}')
  elseif lease then
    crashes = crashes + 1
    add_event(id, 'crashed', '{"worker":"' .. owner .. '","crashes":' .. crashes .. '}')
  end
  set_attempts(id, attempts, crashes, outages)
  count('n:crashed', 1)
  if broken then
    bury_unreadable(id, head, 'attempts')
    buried = buried + 1
  elseif crashes >= crash_limit or outages >= outage_limit then
    bury(id, head, outage and 'Outage\nits worker was lost with many others' or 'WorkerCrashed\nits worker died with it')
    buried = buried + 1
  else
    put_waiting(id, head, outage and outages >= MANY_OUTAGES and solo_start(lease) or NOW)
    requeued = requeued + 1
  end
end

for i, id in ipairs(ids) do
  if budget <= 0 then break end -- the next sweep finds the rest
  -- A lease that cannot be read counts as missing: the job is requeued at once, and no worker is blamed.
  local ms, _, flags = read_lease(leases[i])
  local lease = ms and leases[i]
  flags = flags or '?'
  if not string.find(flags, '?', 1, true) then
    warn(id, lease)
  else
    local head = id ~= '' and redis.call('HGET', HEAD, id)
    if not head then
      drop_missing(id)
    elseif string.find(flags, 'c', 1, true) then
      add_event(id, 'cancelled', '{"reason":"requested while it ran"}')
      redis.call('ZADD', CANCELLED, NOW, id)
      count('n:cancelled', 1)
      release_name(id, head)
      resolve_dependents(id, 'cancelled')
      requeued = requeued + 1
    else
      requeue_expired(id, lease, head)
    end
    -- Last, so that a key of a foreign type leaves the job in two states, never in none.
    redis.call('ZREM', RUNNING, id)
    redis.call('HDEL', LEASE, id)
  end
end
if redis.call('ZCARD', READY) > 0 then wake() end
save_counts()
return { NOW, warned, requeued, buried, next_lease_check() }
