#!lua
-- Makes the jobs of a schedule's runs, each once. The queue itself keeps the last run, in the step that makes the job:
-- a late ticker (suspended, cut off, with old data) finds it, however long the job is gone.
-- keys: meta ready dead done cancelled head body unique wakeup
-- uses: time open constants whole count wake
-- args: now, when the schedule was read or 0, name, until_s, priority, template, payload, unique name or '', then per
--       run: when, id
-- `until_s` is the last run that this call handles, made or not. `now` resets a last run in the future.
-- The last key is `last_run`, a hash: schedule → last run that was handled.
-- reply: now, -1 when the read is too old; else now, the last run before this call, then per run 1 (made), 0 (handled
--        before), or the id of the job that holds the unique name
local LAST_RUN = KEYS[#KEYS]
local STALE = 30000
local read_ms, name, until_s = tonumber(ARGV[2]), ARGV[3], ARGV[4]
if read_ms > 0 and read_ms < NOW - STALE then return { NOW, -1 } end
local handled_until = whole(redis.call('HGET', LAST_RUN, name)) or 0
-- A last run so far ahead was written by a wrong clock, of this server or an earlier one.
if handled_until > NOW / 1000 + 120 then handled_until = math.floor(NOW / 1000) end
if until_s == 'now' then
  local now = math.floor(NOW / 1000)
  if handled_until > now then redis.call('HSET', LAST_RUN, name, string.format('%.0f', now)) end
  return { NOW, handled_until }
end

local function holder_of(unique)
  local holder = unique ~= '' and redis.call('HGET', UNIQUE, unique)
  if holder and redis.call('HEXISTS', HEAD, holder) == 1 and not redis.call('ZSCORE', DONE, holder)
    and not redis.call('ZSCORE', DEAD, holder) and not redis.call('ZSCORE', CANCELLED, holder) then
    return holder
  end
  return nil
end

local out, fresh = { NOW, handled_until }, 0
local score = tonumber(ARGV[5]) * BAND + NOW
for i = 9, #ARGV, 2 do
  local run, id = tonumber(ARGV[i]), ARGV[i + 1]
  local made = 0
  if run > handled_until and redis.call('HEXISTS', HEAD, id) == 0 and not redis.call('ZSCORE', DONE, id) then
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
if tonumber(until_s) > handled_until then redis.call('HSET', LAST_RUN, name, until_s) end
if fresh > 0 then
  count('n:enqueued', fresh)
  redis.call('HSET', META, 'ready', redis.call('ZCARD', READY))
  wake()
end
return out
