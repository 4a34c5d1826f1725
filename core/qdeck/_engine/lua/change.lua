#!lua flags=allow-oom
-- What an operator does to jobs, each only if it is still in the state in which it was seen.
-- keys: meta ready delayed blocked running dead done cancelled head body lease tries error result log claims uniq after bell outbox
-- uses: time open constants head note free place forget handler ended ring tally
-- args: now, verb (cancel discard run reprioritise), priority or '', event, then per job: id, state seen ('' for any)
-- reply: now, then per job `ok`, `asked` (a running job will be told), or why it was skipped
local verb, event = ARGV[2], ARGV[4]
local out = { NOW }
local lists = { ready = READY, delayed = DELAYED, blocked = BLOCKED, running = RUNNING, dead = DEAD, done = DONE,
  cancelled = CANCELLED }
local order = { 'ready', 'delayed', 'blocked', 'running', 'dead', 'done', 'cancelled' }

local function state_of(id)
  for _, state in ipairs(order) do
    local score = redis.call('ZSCORE', lists[state], id)
    if score then return state, tonumber(score) end
  end
  return nil
end

local function cancel(id, state, head)
  if state == 'running' then
    local held = redis.call('HGET', LEASE, id)
    if not held then return 'no lease' end
    local flags = string.match(held, '^%S+ %S+ %S+ %S+ ?(%S*)')
    if not string.find(flags, 'c', 1, true) then
      redis.call('HSET', LEASE, id, flags == '' and held .. ' c' or held .. 'c')
    end
    return 'asked'
  end
  if state ~= 'ready' and state ~= 'delayed' and state ~= 'blocked' then return 'is ' .. state end
  redis.call('ZREM', lists[state], id)
  redis.call('HDEL', AFTER, '<' .. id)
  note(id, 'cancelled', event)
  redis.call('ZADD', CANCELLED, NOW, id)
  redis.call('HINCRBY', META, 'n:cancelled', 1)
  free(id, head)
  ended(id, 'cancelled')
  return 'ok'
end

local function discard(id, state, head)
  if state == 'running' then return 'is running' end
  redis.call('ZREM', lists[state], id)
  redis.call('HDEL', AFTER, '<' .. id)
  free(id, head)
  ended(id, 'discarded')
  forget({ id })
  redis.call('HINCRBY', META, 'n:discarded', 1)
  return 'ok'
end

local function run(id, state, head)
  if state ~= 'delayed' then return 'is ' .. state end
  redis.call('ZREM', DELAYED, id)
  place(id, head, NOW)
  return 'ok'
end

local function reprioritise(id, state, head, score)
  if state ~= 'ready' and state ~= 'delayed' and state ~= 'blocked' then return 'is ' .. state end
  local new = ARGV[3]
  local old = priority_of(head)
  redis.call('HSET', HEAD, id, (string.gsub(head, '^(%d+) %d+', '%1 ' .. new)))
  if state == 'ready' then redis.call('ZADD', READY, score + (tonumber(new) - old) * BAND, id) end
  return 'ok'
end

local verbs = { cancel = cancel, discard = discard, run = run, reprioritise = reprioritise }
for i = 5, #ARGV, 2 do
  local id, seen = ARGV[i], ARGV[i + 1]
  local state, score = state_of(id)
  local head = redis.call('HGET', HEAD, id)
  if not state then
    out[#out + 1] = 'gone'
  elseif seen ~= '' and seen ~= state then
    out[#out + 1] = 'is ' .. state .. ' now'
  elseif not head and verb ~= 'discard' then
    out[#out + 1] = 'no record'
  else
    out[#out + 1] = verbs[verb](id, state, head or '', score)
  end
end
if redis.call('ZCARD', READY) > 0 then ring() end
tally()
return out
