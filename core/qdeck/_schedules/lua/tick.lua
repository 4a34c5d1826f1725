#!lua
-- Makes the jobs of a schedule's turns, each once. The queue itself keeps which turn was the last, in the step that
-- makes the job: whoever comes late (frozen, cut off, with an old look) finds that, however long the job is gone.
-- keys: meta ready dead done cancelled head body unique wakeup
-- uses: time open constants whole count wake
-- args: now, when the schedule was looked at or 0, name, upto, priority, template, payload, unique name or '', then per
--       turn: when, id
-- `upto` is the last turn that is settled with this, made or not. An `upto` of `now` takes back a mark in the future.
-- The last key is `last_run`, a hash: schedule → last turn that was settled.
-- reply: now, -1 when the look is too old; else now, the mark that was there, then per turn 1 (made), 0 (was settled
--        before), or the id of the job that holds the unique name
local LAST_RUN = KEYS[#KEYS]
local STALE = 30000
local look, name, upto = tonumber(ARGV[2]), ARGV[3], ARGV[4]
if look > 0 and look < NOW - STALE then return { NOW, -1 } end
local mark = whole(redis.call('HGET', LAST_RUN, name)) or 0
-- So far ahead no mark is ever set: this clock, or that of a server before it, was wrong for a while.
if mark > NOW / 1000 + 120 then mark = math.floor(NOW / 1000) end
if upto == 'now' then
  local now = math.floor(NOW / 1000)
  if mark > now then redis.call('HSET', LAST_RUN, name, string.format('%.0f', now)) end
  return { NOW, mark }
end

local function holder_of(unique)
  local holder = unique ~= '' and redis.call('HGET', UNIQUE, unique)
  if holder and redis.call('HEXISTS', HEAD, holder) == 1 and not redis.call('ZSCORE', DONE, holder)
    and not redis.call('ZSCORE', DEAD, holder) and not redis.call('ZSCORE', CANCELLED, holder) then
    return holder
  end
  return nil
end

local out, fresh = { NOW, mark }, 0
local score = tonumber(ARGV[5]) * BAND + NOW
for i = 9, #ARGV, 2 do
  local turn, id = tonumber(ARGV[i]), ARGV[i + 1]
  local made = 0
  if turn > mark and redis.call('HEXISTS', HEAD, id) == 0 and not redis.call('ZSCORE', DONE, id) then
    made = holder_of(ARGV[8]) or 1
    if made == 1 then
      redis.call('HSET', HEAD, id, STAMP .. ' ' .. ARGV[6])
      redis.call('HSET', BODY, id, ARGV[7])
      redis.call('ZADD', READY, score, id)
      if ARGV[8] ~= '' then redis.call('HSET', UNIQUE, ARGV[8], id) end
      fresh = fresh + 1
    end
  end
  out[#out + 1] = made
end
if tonumber(upto) > mark then redis.call('HSET', LAST_RUN, name, upto) end
if fresh > 0 then
  count('n:enqueued', fresh)
  redis.call('HSET', META, 'ready', redis.call('ZCARD', READY))
  wake()
end
return out
