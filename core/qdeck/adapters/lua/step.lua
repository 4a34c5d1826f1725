#!lua
-- Changes entries of a foreign queue if they still are, to the byte, what was seen; all of it or nothing.
-- KEYS: the keys of the checks and writes, each once; the last one is the hash that keeps what undoes the batch.
-- ARGV: "do" or "undo" (or "once": nothing is kept), place in the batch, ms to keep what undoes it, what undoes it,
--   number of checks, the checks (kind, key, member, expected), then the writes (number of arguments, command, key,
--   arguments).
--   An expected value is "=" and the value, or "-" for none; keys are given as places in KEYS.
-- Answers 0: done, -1: done already, n: the n-th check did not hold and nothing was done, -1 - n: its key is of
--   another type, and nothing was done.
local undo, mode, place = KEYS[#KEYS], ARGV[1], ARGV[2]
local known = redis.call('HEXISTS', undo, place) == 1
if mode == 'do' and known or mode == 'undo' and not known then return -1 end
local look = {
  score = function(key, member) return redis.pcall('ZSCORE', key, member) end,
  field = function(key, member) return redis.pcall('HGET', key, member) end,
  member = function(key, member)
    local found = redis.pcall('SISMEMBER', key, member)
    return found == 1 and '1' or found ~= 0 and found
  end,
  entry = function(key, member)
    local found = redis.pcall('LPOS', key, member)
    return tonumber(found) and '1' or found
  end,
  list = function(key) local kind = redis.call('TYPE', key).ok; return (kind == 'list' or kind == 'none') and '1' end,
  whole = function(key)
    local all = redis.pcall('LRANGE', key, 0, 1000)
    if all.err then return all end
    for i, entry in ipairs(all) do all[i] = #entry .. ':' .. entry end
    return table.concat(all)
  end,
  type = function(key) local kind = redis.call('TYPE', key).ok; return kind ~= 'none' and kind end,
  ttl = function(key) return redis.call('TTL', key) == -1 and '-1' end,
}
local at, count = 6, tonumber(ARGV[5])
for number = 1, count do
  local found = look[ARGV[at]](KEYS[tonumber(ARGV[at + 1])], ARGV[at + 2])
  if type(found) == 'table' then
    return found.err:find('WRONGTYPE', 1, true) and -1 - number or found
  end
  if (found and '=' .. found or '-') ~= ARGV[at + 3] then return number end
  at = at + 4
end
local writes = {}
while ARGV[at] do
  local size = tonumber(ARGV[at])
  local call = {ARGV[at + 1], KEYS[tonumber(ARGV[at + 2])]}
  for i = 3, size do call[i] = ARGV[at + i] end
  writes[#writes + 1] = call
  at = at + size + 1
end
-- What is refused is refused before the first write: half of a change would have nothing that undoes it.
local kept = mode == 'do' and { { 'HSET', undo, place, '' }, { 'PEXPIRE', undo, 1 } }
  or mode == 'undo' and { { 'HDEL', undo, place } } or {}
for _, calls in ipairs({ writes, kept }) do
  for _, call in ipairs(calls) do
    if not redis.acl_check_cmd(unpack(call)) then
      return redis.error_reply('NOPERM this user has no permissions to run ' .. call[1] .. ': nothing was done')
    end
  end
end
for _, call in ipairs(writes) do redis.call(unpack(call)) end
if mode == 'do' then
  redis.call('HSET', undo, place, ARGV[4])
  redis.call('PEXPIRE', undo, ARGV[3])
elseif mode == 'undo' then
  redis.call('HDEL', undo, place)
end
return 0
