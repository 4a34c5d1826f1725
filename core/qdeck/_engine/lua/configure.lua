#!lua
-- Sets settings of a queue (an empty value removes one), and wakes an idle worker.
-- keys: meta wakeup
-- uses: rights open wake
-- args: then per setting: name, value
for i = 1, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', META, ARGV[i])
  else
    redis.call('HSET', META, ARGV[i], ARGV[i + 1])
  end
end
wake()
return 1
