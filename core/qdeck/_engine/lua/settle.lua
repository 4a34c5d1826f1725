#!lua flags=allow-oom
-- Steps of a dependency that come from an outbox; each may be sent twice.
-- keys: meta ready delayed blocked dead done cancelled head body tries error uniq after bell outbox
-- uses: time open constants head note free place handler ended await ring
-- args: now, 'release', id, outcome          the job ended: settle the next of those that wait for it
--       now, 'resolve', child, ref, outcome  a job of another queue ended
--       now, 'watch', id, ref of the child   a job of another queue waits for this one
-- reply: for watch how the job ended or `live`, else 1
local answer = 1
if ARGV[2] == 'release' then
  ended(ARGV[3], ARGV[4])
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
redis.call('HSET', META, 'ready', redis.call('ZCARD', READY), 'delayed', redis.call('ZCARD', DELAYED),
  'blocked', redis.call('ZCARD', BLOCKED), 'dead_letter', redis.call('ZCARD', DEAD))
if redis.call('ZCARD', READY) > 0 then ring() end
return answer
