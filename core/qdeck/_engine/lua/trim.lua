#!lua flags=allow-oom
-- Drops what was kept for too long: one slice of each list of ended jobs and of the ids of removed jobs, and claims of
-- workers that ended long ago.
-- keys: meta ready delayed blocked dead done cancelled removed head body attempts error result log unique groups after claims unknown_tasks outbox
-- uses: time open constants whole count head attempts event release_name put_waiting delete_records removed groups handler dependents trim unknown_tasks
-- args: now
-- reply: now, how many were dropped
local set = redis.call('HMGET', META, 'dead_ttl', 'dead_max', 'done_ttl', 'done_max', 'cancelled_ttl', 'cancelled_max')
local n = trim(DEAD, whole(set[1]) or 604800000, whole(set[2]) or 100000, 0, 'n:dropped_dead', SLICE)
n = n + trim(DONE, whole(set[3]) or 3600000, whole(set[4]) or 1000, RESEND_MS, 'n:dropped_done', SLICE)
n = n + trim(CANCELLED, whole(set[5]) or 86400000, whole(set[6]) or 10000, RESEND_MS, 'n:dropped_cancelled', SLICE)
n = n + drop_removed(SLICE)
-- Jobs that ended in the future, by a clock that was set back since, ended now: else they would be kept until then.
for _, key in ipairs({ DEAD, DONE, CANCELLED }) do
  local late = redis.call('ZREVRANGEBYSCORE', key, '+inf', '(' .. string.format('%.0f', NOW + 1000), 'LIMIT', 0, SLICE)
  local z = {}
  for i, id in ipairs(late) do z[2 * i - 1], z[2 * i] = NOW, id end
  if #z > 0 then redis.call('ZADD', key, unpack(z)) end
end
-- The padding of `init` is deleted with a job of the empty id.
for _, key in ipairs({ HEAD, BODY }) do redis.call('HSETNX', key, '', string.rep(' ', 65)) end
local page = redis.call('HSCAN', CLAIMS, whole(redis.call('HGET', META, 'claims_cursor')) or 0, 'COUNT', 50)
redis.call('HSET', META, 'claims_cursor', page[1])
for i = 1, #page[2], 2 do
  local at = whole(string.match(page[2][i + 1], '\n(%d+)$')) or 0
  if math.abs(NOW - at) > 86400000 then redis.call('HDEL', CLAIMS, page[2][i]) end
end
-- Forgets the tasks of jobs that are overdue, or left `delayed` in another way.
local unknown = redis.call('HGET', META, 'unknown_tasks')
if unknown then
  local tasks, over = read_unknown(unknown), { 0 }
  for _, one in pairs(tasks) do over[#over + 1] = one.slot end
  for _, slot in ipairs(over) do
    local first, last = string.format('%.0f', slot * BAND), string.format('%.0f', slot * BAND + NOW - 60000)
    local late = redis.call('ZRANGEBYSCORE', UNKNOWN_TASKS, first, last, 'LIMIT', 0, SLICE)
    if #late > 0 then redis.call('ZREM', UNKNOWN_TASKS, unpack(late)) end
  end
  save_unknown(tasks)
end
redis.call('HSET', META, 'blocked', redis.call('ZCARD', BLOCKED), 'dead_letter', redis.call('ZCARD', DEAD), 'done', redis.call('ZCARD', DONE),
  'cancelled', redis.call('ZCARD', CANCELLED))
return { NOW, n }
