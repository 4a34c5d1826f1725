#!lua
-- Adds an event to the stream of a topic. Without subscribers no one acknowledges and trims: then it is done here.
-- keys: stream (stream)
-- args: event, how many to keep at least without subscribers
-- reply: id of the entry
local id = redis.call('XADD', KEYS[1], '*', 'data', ARGV[1])
local most = tonumber(ARGV[2])
local length = redis.call('XLEN', KEYS[1])
-- Looked at now and then only.
if length > most and length % 100 == 0 and #redis.call('XINFO', 'GROUPS', KEYS[1]) == 0 then
  redis.call('XTRIM', KEYS[1], 'MAXLEN', '~', most)
end
return id
