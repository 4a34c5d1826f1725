#!lua
-- Puts one message on a temporary queue, once: a handler that runs again cannot answer twice. In the same step the
-- queue gets its expiry, so that an unread answer does not stay.
-- keys: queue (list) once (string: there while this sender has answered)
-- args: deadline ms since the epoch or '', ms to live, message
-- reply: `sent`, `joined` (to a list that was there), `again` (was answered before) or `late` (the request has ended)
local t = redis.call('TIME')
local NOW = t[1] * 1000 + math.floor(t[2] / 1000)
local found = redis.call('TYPE', KEYS[1]).ok
if found ~= 'none' and found ~= 'list' then
  return redis.error_reply('QDECK FOREIGN ' .. KEYS[1] .. ' ' .. found .. ' list')
end
local live = tonumber(ARGV[2])
local MOST = math.max(live, 86400000) -- a caller that asks to wait for years may end tomorrow
if ARGV[1] ~= '' then
  local left = tonumber(ARGV[1]) - NOW
  if left <= 0 then return 'late' end
  live = math.min(left + 1000, MOST) -- the reader may be a moment behind
end
live = string.format('%.0f', live)
if not redis.call('SET', KEYS[2], '1', 'NX', 'PX', live) then return 'again' end
redis.call('RPUSH', KEYS[1], ARGV[3])
if found == 'none' then
  redis.call('PEXPIRE', KEYS[1], live)
  return 'sent'
end
-- What waits there already keeps its time: an answer to a shorter question must not take it away, and a list without an
-- end was not made by a service: the caller named a queue of another program.
local left = redis.call('PTTL', KEYS[1])
if left >= 0 and left < tonumber(live) then redis.call('PEXPIRE', KEYS[1], live) end
return 'joined'
