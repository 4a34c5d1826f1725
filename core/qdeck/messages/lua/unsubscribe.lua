#!lua flags=allow-oom
-- Works without memory to spare, because it makes room.
-- Removes the group of a subscriber, and the stream with the last one: in one step, so that no subscriber comes between.
-- keys: stream (stream)
-- args: group
-- reply: how many groups are left
if redis.call('TYPE', KEYS[1]).ok ~= 'stream' then return 0 end
redis.call('XGROUP', 'DESTROY', KEYS[1], ARGV[1])
local left = #redis.call('XINFO', 'GROUPS', KEYS[1])
if left == 0 then redis.call('UNLINK', KEYS[1]) end
return left
