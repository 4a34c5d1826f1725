#!lua flags=allow-oom
-- Renews leases. Returns which are lost, and for which a cancel was requested.
-- keys: meta running lease
-- uses: time open whole lease
-- args: now, then per job: id, token
-- reply: now, lost ids, ids to cancel
local lost, cancels = {}, {}
for i = 2, #ARGV, 2 do
  local id, mine = ARGV[i], ARGV[i + 1]
  local held = redis.call('HGET', LEASE, id)
  local ms, _, flags = read_lease(held)
  if ms and string.sub(held, 1, #mine) == mine then
    redis.call('ZADD', RUNNING, NOW + ms, id)
    if string.find(flags, '?', 1, true) then
      local kept = string.find(flags, 'c', 1, true) and ' c' or ''
      redis.call('HSET', LEASE, id, string.match(held, '^%S+ %S+ %S+ %S+') .. kept)
    end
    if string.find(flags, 'c', 1, true) then cancels[#cancels + 1] = id end
  else
    lost[#lost + 1] = id
  end
end
return { NOW, lost, cancels }
