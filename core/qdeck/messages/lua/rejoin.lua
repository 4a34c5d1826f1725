#!lua
-- Puts names back into the set of a task's lists. A set that was gone with its last name gets the time to live it had.
-- keys: names of a task's lists (set)
-- args: ms to live, -1 without an end; names
-- reply: how many came back
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'set' then return 0 end
local back = redis.call('SADD', KEYS[1], unpack(ARGV, 2))
if kind == 'none' and tonumber(ARGV[1]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return back
