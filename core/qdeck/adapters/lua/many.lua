#!lua
-- Makes a change of each of many entries by a chunk of their adapter's, which returns a function for one of them.
-- KEYS: the keys of that chunk; the last one is the hash that keeps what undoes the batch.
-- ARGV: ms to keep what undoes it, most bytes to keep of the batch, how many arguments an entry has; then for each entry
--   its place in the batch, its id and its arguments.
-- Replies as `change` for each entry; an entry that is left alone replies {1, code, key}.
local change = (function()
  -- The chunk of the adapter stands here.
end)()

local undo, most, count = KEYS[#KEYS], tonumber(ARGV[2]), tonumber(ARGV[3])

local function told(value) return value and '=' .. value or '-' end

local function packed(id, cells)
  local out = { #id .. ':' .. id }
  for number = #cells, 1, -1 do  -- undone from the last to the first
    for _, value in ipairs(cells[number]) do out[#out + 1] = #value .. ':' .. value end
  end
  return table.concat(out)
end

local replies = {}
for at = 4, #ARGV, count + 2 do
  local place, id = ARGV[at], ARGV[at + 1]
  local total = tonumber(redis.call('HGET', undo, 'bytes') or 0)
  local reply = { -1, total, redis.call('HSTRLEN', undo, place) > 0 and 1 or 0, '' }
  if redis.call('HEXISTS', undo, place) == 0 then
    local cells = {}
    local function keep(kind, key, ident, before, after, extra, hint)
      cells[#cells + 1] = { kind, key, ident, told(after), told(before), '', extra or '', hint or '' }
    end
    local code, key = change({ unpack(ARGV, at + 2, at + 1 + count) }, keep)
    if code then
      reply = { 1, code, key or '' }
    else
      local text = packed(id, cells)
      local fits = total + #text <= most
      redis.call('HSET', undo, place, fits and text or '')
      if fits then total = redis.call('HINCRBY', undo, 'bytes', #text) end
      reply = { 0, total, fits and 1 or 0, '' }
    end
  end
  replies[#replies + 1] = reply
end
if redis.call('EXISTS', undo) == 1 then redis.call('PEXPIRE', undo, ARGV[1]) end
return replies
