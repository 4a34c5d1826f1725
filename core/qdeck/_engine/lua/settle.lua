#!lua flags=allow-oom
-- Steps of a dependency that come from an outbox; each may be sent twice.
-- keys: meta ready delayed blocked running dead done cancelled removed head body tries error uniq groups after bell outbox undo
-- uses: time open constants head note free place removed groups handler ended await ring states fallen
-- args: now, 'release', id, outcome          the job ended: settle the next of those that wait for it
--       now, 'resolve', child, ref, outcome  a job of another queue ended
--       now, 'watch', id, ref of the child   a job of another queue waits for this one
-- What is done on behalf of a batch is kept in its `undo`; without one, that key ends in a colon and is not touched.
-- reply: for watch how the job ended or `live`, else 1
local answer = 1
BATCH = string.sub(UNDO, #QUEUE + 9)
if BATCH ~= '' then fallen = { fall = {}, go = {}, told = {} } end
if ARGV[2] == 'release' then
  -- A job that was put back since goes on, and so do those that wait for it.
  if not LIVE[state_of(ARGV[3]) or ''] then ended(ARGV[3], ARGV[4]) end
elseif ARGV[2] == 'resolve' then
  settle(ARGV[3], ARGV[4], ARGV[5])
else
  local id = ARGV[3]
  if redis.call('ZSCORE', DONE, id) then
    answer = 'done'
  elseif redis.call('ZSCORE', DEAD, id) then
    answer = 'dead'
  elseif redis.call('ZSCORE', CANCELLED, id) then
    answer = 'cancelled'
  elseif redis.call('HEXISTS', HEAD, id) == 1 then
    await(id, ARGV[4])
    answer = 'live'
  else
    answer = 'unknown'
  end
end
if fallen then keep_fallen() end
redis.call('HSET', META, 'ready', redis.call('ZCARD', READY), 'delayed', redis.call('ZCARD', DELAYED),
  'blocked', redis.call('ZCARD', BLOCKED), 'dead_letter', redis.call('ZCARD', DEAD))
if redis.call('ZCARD', READY) > 0 then ring() end
return answer
