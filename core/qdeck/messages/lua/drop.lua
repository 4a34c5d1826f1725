#!lua flags=allow-oom
-- Works without memory to spare, because it makes room.
-- Removes a temporary queue, if it is one and was left alone for long enough.
-- keys: queue (list)
-- args: now (0 = the server's clock), ms until which this may be done, seconds it must have been idle
-- reply: messages, bytes; or why not: `gone`, `busy` (used lately), `late`, `foreign`, `unknown` (idle time not kept)
local NOW = tonumber(ARGV[1])
if NOW == 0 then
  local t = redis.call('TIME')
  NOW = t[1] * 1000 + math.floor(t[2] / 1000)
end
if NOW > tonumber(ARGV[2]) then return 'late' end
local found = redis.call('TYPE', KEYS[1]).ok
if found == 'none' then return 'gone' end
if found ~= 'list' then return 'foreign' end
local least = tonumber(ARGV[3])
if least > 0 then
  local idle = redis.pcall('OBJECT', 'IDLETIME', KEYS[1])
  if type(idle) ~= 'number' then return 'unknown' end
  if idle < least then return 'busy' end
end
local size = redis.call('LLEN', KEYS[1])
local bytes = redis.pcall('MEMORY', 'USAGE', KEYS[1])
redis.call('UNLINK', KEYS[1])
return { size, type(bytes) == 'number' and bytes or 0 }
