#!lua flags=allow-oom
-- Drops what is kept for too long: one slice of each list of ended jobs and of the ids of removed ones, and claims of
-- workers long gone.
-- keys: meta dead done cancelled removed head body tries error result log groups claims delayed unknown
-- uses: time open constants note forget removed groups trim unknown
-- args: now
-- reply: now, how many went
local set = redis.call('HMGET', META, 'dead_ttl', 'dead_max', 'done_ttl', 'done_max', 'cancelled_ttl', 'cancelled_max')
local n = trim(DEAD, tonumber(set[1] or 604800000), tonumber(set[2] or 100000), 0, 'n:dropped_dead', SLICE)
n = n + trim(DONE, tonumber(set[3] or 3600000), tonumber(set[4] or 1000), RESEND, 'n:dropped_done', SLICE)
n = n + trim(CANCELLED, tonumber(set[5] or 86400000), tonumber(set[6] or 10000), RESEND, 'n:dropped_cancelled', SLICE)
n = n + drop_removed(SLICE)
local page = redis.call('HSCAN', CLAIMS, redis.call('HGET', META, 'swept') or '0', 'COUNT', 50)
redis.call('HSET', META, 'swept', page[1])
for i = 1, #page[2], 2 do
  local at = tonumber(string.match(page[2][i + 1], '\n(%d+)$') or 0)
  if at < NOW - 86400000 then redis.call('HDEL', CLAIMS, page[2][i]) end
end
-- Jobs that are overdue, or that left `delayed` by another way, are not looked for by their task any more.
local unknown = redis.call('HGET', META, 'unknown')
if unknown then
  local tasks, over = read_unknown(unknown), { 0 }
  for _, one in pairs(tasks) do over[#over + 1] = one.slot end
  for _, slot in ipairs(over) do
    local first, last = string.format('%.0f', slot * BAND), string.format('%.0f', slot * BAND + NOW - 60000)
    local late = redis.call('ZRANGEBYSCORE', UNKNOWN, first, last, 'LIMIT', 0, SLICE)
    if #late > 0 then redis.call('ZREM', UNKNOWN, unpack(late)) end
  end
  save_unknown(tasks)
end
redis.call('HSET', META, 'dead_letter', redis.call('ZCARD', DEAD), 'done', redis.call('ZCARD', DONE),
  'cancelled', redis.call('ZCARD', CANCELLED))
return { NOW, n }
