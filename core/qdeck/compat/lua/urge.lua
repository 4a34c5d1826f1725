#!lua flags=allow-oom
-- Makes a job more urgent, never less: of two callers at once the more urgent one wins.
-- keys: meta ready delayed blocked running head
-- uses: time open constants whole head
-- args: now, id, priority
-- reply: now, 1 if its priority was changed
local id, new = ARGV[2], tonumber(ARGV[3])
local head = redis.call('HGET', HEAD, id)
if not head or priority_of(head) <= new then return { NOW, 0 } end
local score = redis.call('ZSCORE', READY, id)
if not score and not redis.call('ZSCORE', DELAYED, id) and not redis.call('ZSCORE', BLOCKED, id)
  and not redis.call('ZSCORE', RUNNING, id) then
  return { NOW, 0 }
end
if score then redis.call('ZADD', READY, tonumber(score) + (new - priority_of(head)) * BAND, id) end
redis.call('HSET', HEAD, id, (string.gsub(head, '^(%d+) %d+', '%1 ' .. ARGV[3])))
return { NOW, 1 }
