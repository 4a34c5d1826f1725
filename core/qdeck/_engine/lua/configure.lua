#!lua
-- Sets settings of a queue (an empty value removes one), and wakes an idle worker.
-- keys: meta wakeup
-- uses: rights open wake
-- args: the name of a setting and the value that it must have (empty when it is not set), both empty where no value is
--       required; then per setting: name, value
-- reply: 1, or 0 when the setting has another value
if ARGV[1] ~= '' and (redis.call('HGET', META, ARGV[1]) or '') ~= ARGV[2] then return 0 end
for i = 3, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', META, ARGV[i])
  else
    redis.call('HSET', META, ARGV[i], ARGV[i + 1])
  end
end
wake()
return 1
