#!lua flags=allow-oom
-- Takes in a job that was moved here from another queue, with its place, its tries and its history. Sent twice it is
-- done once. A unique name that another job holds here by now is left to that one.
-- keys: meta ready delayed blocked running dead done cancelled removed head body tries error uniq bell
-- uses: time open constants head ring states holder
-- args: now, id, state, score, head, body, tries, error
-- reply: 1, or 0 when it was there already
local id, state, score, head = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if redis.call('HEXISTS', HEAD, id) == 1 or redis.call('ZSCORE', DONE, id) then return 0 end
if string.find(head, '\nu', 1, true) then
  local name = option(head, 'n')
  if name and twin_of(id, name) then
    head = string.gsub(head, '\nu', '', 1)
  elseif name then
    redis.call('HSET', UNIQ, name, id)
  end
end
redis.call('ZREM', REMOVED, id)
redis.call('HSET', HEAD, id, head)
redis.call('HSET', BODY, id, ARGV[6])
if ARGV[7] ~= '' then redis.call('HSET', TRIES, id, ARGV[7]) end
if ARGV[8] ~= '' then redis.call('HSET', ERROR, id, ARGV[8]) end
redis.call('ZADD', LISTS[state], score, id)
redis.call('HINCRBY', META, 'n:enqueued', 1)
redis.call('HSET', META, state, redis.call('ZCARD', LISTS[state]))
ring()
return 1
