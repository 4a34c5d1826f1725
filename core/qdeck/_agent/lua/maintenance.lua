#!lua flags=allow-oom
-- Runs without free memory, too, because the tasks of agents free some.
-- One maintenance task of the agents: which agent runs it, and when it is due again. Any number of agents claim; one
-- gets the run.
-- A run belongs to its token, for a lease that the agent renews. When the lease ends before the run, the next agent that
-- claims gets the task with another token, and calls with the old one are refused. A claim carries a number of its own,
-- so that one sent again after a lost reply is one.
-- keys: qdeck:agent:{qdeck:<task>} (hash: token holder request until started ended outcome summary runs failed n:<counter>),
--   and for `finish` perhaps a second hash that the run replaces
-- args: now (0 = the server's clock), verb, then
--   claim: agent, every ms, lease ms, aligned, number  reply: token or 0, ms to wait, now, ms when the run started
--   renew: token, lease ms                         reply: 1, or 0 when another agent has the run
--   finish: token, outcome, summary, ms to live of the second hash, how many counters, counters and what to add, fields
--           and values of the second hash          reply: 1, or 0 when another agent has the run
local NOW = tonumber(ARGV[1])
if NOW == 0 then
  local t = redis.call('TIME')
  NOW = t[1] * 1000 + math.floor(t[2] / 1000)
end
local TASK, verb = KEYS[1], ARGV[2]

-- A field that cannot be read counts as 0, so that it does not block the task.
local function number(raw, most)
  local found = tonumber(raw or 0)
  if not found or found ~= found or found < 0 or found > most then return 0 end
  return found
end

local function add(field, more)
  local before = redis.call('HGET', TASK, field)
  if before and (#before > 15 or not string.match(before, '^%d+$')) then
    redis.call('HSET', TASK, field, field == 'token' and string.format('%.0f', NOW) or '0')
  end
  return redis.call('HINCRBY', TASK, field, more)
end

local function text(ms)
  return string.format('%.0f', ms)
end

if verb == 'claim' then
  local every, lease, aligned = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6] == '1'
  local seen = redis.call('HMGET', TASK, 'until', 'started', 'request', 'token')
  local held, started = number(seen[1], NOW + 86400000), number(seen[2], NOW)
  -- A lease that ends later than one from now on was given by a clock that was set back since: it counts as over.
  if held > NOW and held <= NOW + lease then
    if seen[3] == ARGV[7] then return { number(seen[4], 1e15), 0, NOW, started } end
    -- It may end before its lease does: claim again when it is due.
    local due = started + every - NOW
    return { 0, math.min(held - NOW, due > 0 and due or math.max(every, 1000)), NOW, 0 }
  end
  if started == 0 then -- never done, or the server's clock was set back
    started = NOW
  else
    local due = started + every
    if due > NOW and held == 0 then return { 0, due - NOW, NOW, 0 } end
    -- Keeps the interval; missed runs are not made up for. A run that did not end is due at once.
    if due <= NOW then started = due + math.floor((NOW - due) / every) * every end
  end
  if aligned then started = NOW - NOW % every end
  local token = add('token', 1)
  redis.call('HSET', TASK, 'holder', ARGV[3], 'request', ARGV[7], 'until', text(NOW + lease),
    'started', text(started))
  return { token, 0, NOW, started }
end

local state = redis.call('HMGET', TASK, 'token', 'until')
if state[1] ~= ARGV[3] then return 0 end
if state[2] == '0' then return verb == 'finish' and 1 or 0 end -- sent again

if verb == 'renew' then
  redis.call('HSET', TASK, 'until', text(NOW + tonumber(ARGV[4])))
  return 1
end

local live, counters = tonumber(ARGV[6]), tonumber(ARGV[7])
redis.call('HSET', TASK, 'until', '0', 'ended', text(NOW), 'outcome', ARGV[4], 'summary', ARGV[5])
add(ARGV[4] == 'done' and 'runs' or 'failed', 1)
for i = 1, counters do
  add('n:' .. ARGV[6 + 2 * i], ARGV[7 + 2 * i])
end
local first = 8 + 2 * counters
if KEYS[2] and ARGV[first] then
  redis.call('DEL', KEYS[2])
  for i = first, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
  redis.call('PEXPIRE', KEYS[2], live)
end
return 1
