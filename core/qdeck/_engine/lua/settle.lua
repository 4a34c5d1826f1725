#!lua flags=allow-oom
-- Steps of a dependency that come from an outbox; each may be sent twice.
-- keys: meta ready delayed blocked running dead done cancelled removed head body attempts error unique groups after wakeup outbox undo
-- uses: time open constants whole count late resent head attempts note free place removed early groups handler ended await wake states fallen
-- args: now, when it was read that this is to be done (0: not known), then
--       'release', id, outcome          the job ended: settle the next of those that wait for it
--       'resolve', child, ref, outcome  a job of another queue ended
--       'watch', then pairs of id and ref of the child: a job of another queue waits for this one
-- What is done on behalf of a batch is kept in its `undo`; without one, that key ends in a colon and is not touched.
-- reply: for watch of each job how it ended, or `live`, or `unknown`; else 1
local answer = 1
if is_late(ARGV[2]) then return redis.error_reply('QDECK LATE') end
BATCH = string.sub(UNDO, #QUEUE + 9)
if BATCH ~= '' then fallen = { fall = {}, go = {}, told = {} } end

local function resolve(child, ref, outcome)
  if redis.call('HEXISTS', HEAD, child) == 0 and not redis.call('ZSCORE', DONE, child) and not was_removed(child) then
    -- Its enqueue announced it to its parent and is still on its way: it finds this end.
    redis.call('ZADD', REMOVED, NOW, early_end(child, ref, outcome))
    drop_removed(SLICE)
  end
  settle(child, ref, outcome)
end

local function watch(id, child)
  if redis.call('ZSCORE', DONE, id) then return 'done' end
  if redis.call('ZSCORE', DEAD, id) then return 'dead' end
  if redis.call('ZSCORE', CANCELLED, id) then return 'cancelled' end
  if redis.call('HEXISTS', HEAD, id) == 0 then return 'unknown' end
  await(id, child)
  return 'live'
end

if ARGV[3] == 'release' then
  -- A job that was put back since goes on, and so do those that wait for it.
  if not LIVE[state_of(ARGV[4]) or ''] then ended(ARGV[4], ARGV[5]) end
elseif ARGV[3] == 'resolve' then
  resolve(ARGV[4], ARGV[5], ARGV[6])
else
  answer = {}
  for i = 4, #ARGV, 2 do answer[#answer + 1] = watch(ARGV[i], ARGV[i + 1]) end
end
if fallen then keep_fallen() end
redis.call('HSET', META, 'ready', redis.call('ZCARD', READY), 'delayed', redis.call('ZCARD', DELAYED),
  'blocked', redis.call('ZCARD', BLOCKED), 'dead_letter', redis.call('ZCARD', DEAD))
if redis.call('ZCARD', READY) > 0 then wake() end
return answer
