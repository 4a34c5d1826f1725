#!lua flags=allow-oom
-- Works without memory to spare, because it makes room.
-- Removes a temporary queue, if it is one and was left alone for long enough. In the same step a copy is put aside.
-- keys: queue (list) copy (string: `ms to live, -1 without an end`, a space, the list as `DUMP` writes it)
-- args: ms until which this may be done, seconds it must have been idle, bytes that the
--   copy may take (0: none is made), ms that it is kept, 1 when nothing is to go without a copy, 1 when no message is to go
-- reply: messages, bytes, 1 when a copy was made; or why not: `gone`, `recent` (used lately), `late`, `foreign`, `unknown` (idle time not kept), `uncopied`,
--   `filled` (there are messages)
local t = redis.call('TIME')
local NOW = t[1] * 1000 + math.floor(t[2] / 1000)
if NOW > tonumber(ARGV[1]) then return 'late' end
local found = redis.call('TYPE', KEYS[1]).ok
if found == 'none' then return 'gone' end
if found ~= 'list' then return 'foreign' end
if ARGV[6] == '1' then return 'filled' end
local least = tonumber(ARGV[2])
if least > 0 then
  local idle = redis.pcall('OBJECT', 'IDLETIME', KEYS[1])
  if type(idle) ~= 'number' then return 'unknown' end
  if idle < least then return 'recent' end
end
local size = redis.call('LLEN', KEYS[1])
local bytes = redis.pcall('MEMORY', 'USAGE', KEYS[1], 'SAMPLES', 0) -- all of it: by its first entries a list may look small
bytes = type(bytes) == 'number' and bytes or 0
local most, copied = tonumber(ARGV[3]), 0
if bytes > 0 and bytes <= most then
  local left, dump = redis.call('PTTL', KEYS[1]), redis.pcall('DUMP', KEYS[1])
  if type(dump) == 'string' then
    local done = redis.pcall('SET', KEYS[2], string.format('%.0f ', left) .. dump, 'PX', ARGV[4])
    copied = done.ok and 1 or 0
  end
end
if copied == 0 and ARGV[5] == '1' then return 'uncopied' end
redis.call('UNLINK', KEYS[1])
return { size, bytes, copied }
