#!lua
-- Creates a queue, once. Refuses when one of its keys holds something else.
-- keys: meta ready delayed blocked running dead done cancelled removed head body lease attempts error result log claims unique groups after unknown_tasks wakeup outbox
-- uses:
-- args: the type of each key, in order
for i = 1, #KEYS do
  local found = redis.call('TYPE', KEYS[i])
  found = found.ok or found
  if found ~= 'none' and found ~= ARGV[i] then
    return redis.error_reply('QDECK FOREIGN ' .. KEYS[i] .. ' ' .. found .. ' ' .. ARGV[i])
  end
end
local version = redis.call('HGET', META, 'v')
if version then return version end
-- A field of over 64 bytes turns a small hash into a table; without it, fields are searched one by one.
local padding = string.rep(' ', 65)
for _, key in ipairs({ META, HEAD, BODY, LEASE }) do redis.call('HSET', key, '', padding) end
redis.call('HSET', META, 'v', LAYOUT)
return LAYOUT
