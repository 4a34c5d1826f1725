#!lua
-- Puts the copy of a removed list back, once, with the time to live that it had left.
-- keys: queue (list) copy (string: see drop.lua; `back` when it was put back)
-- reply: `back`, or why not: `gone` (there is no copy), `there` (nor was it removed), `again` (there is a key of that name)
local kept = redis.call('GET', KEYS[2])
if not kept then return redis.call('EXISTS', KEYS[1]) == 1 and 'there' or 'gone' end
if kept == 'back' then return 'back' end
if redis.call('EXISTS', KEYS[1]) == 1 then return 'again' end
local at = string.find(kept, ' ', 1, true)
redis.call('RESTORE', KEYS[1], math.max(0, tonumber(string.sub(kept, 1, at - 1))), string.sub(kept, at + 1))
redis.call('SET', KEYS[2], 'back', 'KEEPTTL')
return 'back'
