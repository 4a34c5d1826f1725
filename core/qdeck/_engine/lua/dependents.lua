#!lua flags=allow-oom
-- Effects on dependents that come from an outbox; each may be sent twice.
-- keys: meta ready delayed blocked running dead done cancelled removed head body attempts error unique groups after wakeup outbox undo
-- uses: time open constants whole count too_old was_removed head attempts event release_name put_waiting removed early_ending groups handler dependents add_dependent wake states affected
-- args: now, when the outbox entry was read (0: not known), then
--       'release', id, outcome          the job ended: resolve the next of its dependents
--       'resolve', child, ref, outcome  a job of another queue ended
--       'watch', then pairs of id and ref of the child: a job of another queue waits for this one
-- Effects of a batch are kept in its `undo`; without a batch that key ends in a colon and is not used.
-- reply: for watch the outcome of each job, or `live`, or `unknown`; else 1
local answer = 1
if is_too_old(ARGV[2]) then return redis.error_reply('QDECK LATE') end
BATCH = string.sub(UNDO, #QUEUE + 9)
if BATCH ~= '' then affected = { died = {}, continued = {}, queues = {} } end

local function resolve(child, ref, outcome)
  if redis.call('HEXISTS', HEAD, child) == 0 and not redis.call('ZSCORE', DONE, child) and not was_removed(child) then
    -- Its enqueue was announced and has not arrived yet: it will find this outcome.
    redis.call('ZADD', REMOVED, NOW, early_ending(child, ref, outcome))
    drop_removed(SLICE)
  end
  resolve_dependent(child, ref, outcome)
end

local function watch(id, child)
  if redis.call('ZSCORE', DONE, id) then return 'done' end
  if redis.call('ZSCORE', DEAD, id) then return 'dead' end
  if redis.call('ZSCORE', CANCELLED, id) then return 'cancelled' end
  if redis.call('HEXISTS', HEAD, id) == 0 then return 'unknown' end
  add_dependent(id, child)
  return 'live'
end

if ARGV[3] == 'release' then
  -- A job that was restored since runs again, and its dependents wait.
  if not LIVE[state_of(ARGV[4]) or ''] then resolve_dependents(ARGV[4], ARGV[5]) end
elseif ARGV[3] == 'resolve' then
  resolve(ARGV[4], ARGV[5], ARGV[6])
else
  answer = {}
  for i = 4, #ARGV, 2 do answer[#answer + 1] = watch(ARGV[i], ARGV[i + 1]) end
end
if affected then keep_affected() end
redis.call('HSET', META, 'ready', redis.call('ZCARD', READY), 'delayed', redis.call('ZCARD', DELAYED),
  'blocked', redis.call('ZCARD', BLOCKED), 'dead_letter', redis.call('ZCARD', DEAD))
if redis.call('ZCARD', READY) > 0 then wake() end
return answer
