#!lua flags=allow-oom
-- Takes in a job from the outbox of another queue: a moved one, with its place, its attempts and its history, or a new
-- one. A unique name that another job holds here stays with that job. Each place of an outbox is taken in once: the
-- place is kept here until its entry is deleted there, and for RESEND_MS after that.
-- keys: meta ready delayed blocked running dead done cancelled removed head body attempts error unique wakeup
-- uses: time open constants whole count too_old head wake states name_holder
-- args: now, when the entry was read (0: not known), place of the entry, id, state ('': a new job), score (of a new job
--       its priority), head (of a new job without its time), body, attempts, error, `1` for a job that returns to where
--       it was moved from
-- reply: 1; 0 when it was taken in before; 2 when its id is taken: then a moved job returns
local UNDELETED = 86400000 -- ms for which a place is kept whose entry was not deleted
local place, id, state, score, head = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
if is_too_old(ARGV[2]) then return redis.error_reply('QDECK LATE') end
if redis.call('ZSCORE', REMOVED, place) then return 0 end
local refused = place .. ' refused'
if redis.call('ZSCORE', REMOVED, refused) then return 2 end
local is_taken = redis.call('HEXISTS', HEAD, id) == 1 or redis.call('ZSCORE', DONE, id)
if is_taken and state ~= '' then
  redis.call('ZADD', REMOVED, NOW + UNDELETED, refused)
  return 2
end
redis.call('ZADD', REMOVED, NOW + UNDELETED, place)
if is_taken then return 0 end
if state == '' then
  state, head = 'ready', STAMP .. ' ' .. head
  score = tonumber(score) * BAND + NOW
end
if string.find(head, '\nu', 1, true) then
  local name = option(head, 'n')
  if name and name_holder(id, name) then
    head = string.gsub(head, '\nu', '', 1)
  elseif name then
    redis.call('HSET', UNIQUE, name, id)
  end
end
-- Its version must not be given again by the numbers of this queue.
local version = whole(string.match(head, '\nv(%d+)'))
if version and version > (whole(redis.call('HGET', META, 'versions')) or 0) then
  redis.call('HSET', META, 'versions', string.format('%.0f', version))
end
redis.call('ZREM', REMOVED, id)
redis.call('HSET', HEAD, id, head)
redis.call('HSET', BODY, id, ARGV[8])
if ARGV[9] ~= '' then redis.call('HSET', ATTEMPTS, id, ARGV[9]) end
if ARGV[10] ~= '' then redis.call('HSET', ERROR, id, ARGV[10]) end
redis.call('ZADD', LISTS[state], score, id)
if ARGV[11] == '1' then count('n:moved', -1) else count('n:enqueued', 1) end
redis.call('HSET', META, state, redis.call('ZCARD', LISTS[state]))
wake()
return 1
