#!lua flags=allow-oom
-- What a program that manages its jobs by their ids alone needs beyond the engine's own steps.
-- keys: meta ready delayed blocked running dead done cancelled removed head body lease attempts error result log unique groups after wakeup outbox
-- uses: rights time open constants whole count head versions attempts lease event release_name put_waiting delete_records removed groups handler dependents wake save_counts states
-- args: now, verb, id, then
--   put      priority, due ms or '', template, body, call        → made, moved, same or running
--   requeue  the same, then token or ''                      → back, lost, or as put when it does not run
--   own      new token, lease ms or '', token or ''          → own or lost
--   bury     event, template, body, call, token or '', group     → dead or lost
--   promote                                                  → how many were due (500 at most)
-- A token is the start of a lease with its blank, '' any. `call` tells one call from another that names the same id, so
-- that one that is sent again finds that it was done: it stands in the head's line `z`, which only this script reads.
-- reply: now, word
local verb, id = ARGV[2], ARGV[3]
local word

local function mine(token)
  local held = redis.call('HGET', LEASE, id)
  return held and string.sub(held, 1, #token) == token and held or nil
end

local function with_priority(head, priority)
  return (string.gsub(head, '^(%d+) %d+', '%1 ' .. priority))
end
local function signed(head, call)
  return string.gsub(head, '\nz[^\n]*', '') .. '\nz' .. call
end

local function append_to_ready(head, due)
  redis.call('ZREM', READY, id)
  redis.call('ZREM', DELAYED, id)
  redis.call('HSET', HEAD, id, head)
  put_waiting(id, head, due)
end

local function put(priority, due, template, body, call)
  local state = state_of(id)
  local head = redis.call('HGET', HEAD, id)
  if state == 'running' then return 'running' end
  if head and LIVE[state or ''] then
    append_to_ready(with_version(with_priority(head, priority), next_version()), due)
    return 'moved'
  end
  -- It ended. The same call, sent again after its answer was lost, must not let it run again.
  if head and option(head, 'z') == call then return 'same' end
  if state then
    redis.call('ZREM', LISTS[state], id)
    if state == 'dead' then uncount_dead({ redis.call('HGET', ATTEMPTS, id) }) end
    delete_records({ id })
  end
  head = STAMP .. ' ' .. template .. '\nz' .. call
  redis.call('HSET', BODY, id, body)
  count('n:enqueued', 1)
  append_to_ready(head, due)
  return 'made'
end

local function requeue(priority, due, call, token)
  local held = mine(token)
  if not held then return 'lost' end
  local attempts, crashes, outages = attempts_of(id)
  redis.call('ZREM', RUNNING, id)
  redis.call('HDEL', LEASE, id)
  add_event(id, 'requeued', '{"by":"' .. (string.match(held, '^([^%c"\\]-):%d+ ') or '') .. '"}')
  set_attempts(id, attempts + 1, crashes, outages)
  count('n:failed', 1)
  count('n:retried', 1)
  local head = redis.call('HGET', HEAD, id) or STAMP .. ' ' .. priority .. ' 0 ?'
  append_to_ready(signed(with_priority(head, priority), call), due)
  return 'back'
end

local function own(new, lease_ms, token)
  local held = mine(token) or mine(new)
  if not held then return 'lost' end
  local ms, _, flags = read_lease(held)
  if not ms then return 'lost' end
  local claimed, score = string.match(held, '^%S+ (%S+) %S+ (%S+)')
  ms = lease_ms ~= '' and lease_ms or string.format('%.0f', ms)
  flags = string.gsub(flags, '%?', '')
  redis.call('HSET', LEASE, id, new .. claimed .. ' ' .. ms .. ' ' .. score .. (flags == '' and '' or ' ' .. flags))
  redis.call('ZADD', RUNNING, NOW + tonumber(ms), id)
  return 'own'
end

local function bury_jobs(event, template, body, call, token, group)
  local state = state_of(id)
  local head = redis.call('HGET', HEAD, id)
  if state == 'dead' and head and option(head, 'z') == call then return 'dead' end
  if state == 'running' then
    if not mine(token) then return 'lost' end
    redis.call('HDEL', LEASE, id)
    local attempts, crashes, outages = attempts_of(id)
    set_attempts(id, attempts + 1, crashes, outages)
    count('n:failed', 1)
  elseif token ~= '' then
    return 'lost'
  end
  if state then redis.call('ZREM', LISTS[state], id) end
  if state == 'dead' then uncount_dead({ redis.call('HGET', ATTEMPTS, id) }) end
  if not head then
    head = STAMP .. ' ' .. template
    redis.call('HSET', BODY, id, body)
  end
  head = signed(head, call)
  redis.call('HSET', HEAD, id, head)
  add_event(id, 'failed', event)
  bury(id, head, group ~= '' and group or 'unknown\n')
  return 'dead'
end

local function promote()
  local due = redis.call('ZRANGEBYSCORE', DELAYED, '-inf', STAMP, 'WITHSCORES', 'LIMIT', 0, 500)
  local ids, z = {}, {}
  for i = 1, #due, 2 do ids[#ids + 1] = due[i] end
  if #ids == 0 then return 0 end
  for i, head in ipairs(redis.call('HMGET', HEAD, unpack(ids))) do
    z[2 * i - 1], z[2 * i] = (head and priority_of(head) or 100) * BAND + math.max(tonumber(due[2 * i]), 0), ids[i]
  end
  redis.call('ZREM', DELAYED, unpack(ids))
  redis.call('ZADD', READY, unpack(z)) -- one without a record is dropped and counted by who claims it
  return #ids
end

local function due_at(text)
  return tonumber(text) or NOW
end
local function requeue_or_put(priority, due, template, body, call, token)
  if redis.call('ZSCORE', RUNNING, id) then return requeue(priority, due, call, token) end
  local head = redis.call('HGET', HEAD, id)
  if head and option(head, 'z') == call then return 'back' end
  if token ~= '' then return 'lost' end
  return put(priority, due, template, body, call)
end
if verb == 'put' then
  word = put(ARGV[4], due_at(ARGV[5]), ARGV[6], ARGV[7], ARGV[8])
elseif verb == 'requeue' then
  word = requeue_or_put(ARGV[4], due_at(ARGV[5]), ARGV[6], ARGV[7], ARGV[8], ARGV[9])
elseif verb == 'own' then
  word = own(ARGV[4], ARGV[5], ARGV[6])
elseif verb == 'bury' then
  word = bury_jobs(ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9])
else
  word = promote()
end
if redis.call('ZCARD', READY) > 0 or redis.call('ZCARD', DELAYED) > 0 then wake() end
save_counts()
return { NOW, word }
